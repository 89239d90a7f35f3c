"""All `forward` processes are killed with thousands of events waiting: how the scaler finds out that one is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.core.errors import Unavailable
from headrace.core.lease import Lease, LeaseAnswer
from headrace.io.api import JetStreamApi
from headrace.io.client import Client
from headrace_operator.lease_client import LeaseClient, Meanwhile
from headrace_operator.scaler import Scaler
from tests.support.functions import Function
from tests.support.nats_server import NatsServer
from tests.support.scaling import TOKEN, hint
from tests.support.streams import Lane, Nats
from tests.support.subscriber import Hold, Say, Subscriber
from tests.support.waiting import until

pytest_plugins = ["tests.support.scaled"]

EVENTS, MOST = 2_200, 4
USUAL, SHORT = 20.0, 1.0
# So much is in hands when all are killed, and comes back after the ack wait.
IN_FLIGHT = 20


@dataclass
class Request:
    """One lease that was asked for; `told` is when it first said that it had delivered something."""

    seconds: float
    began: float
    ended: float = 0.0
    told: float = float("inf")
    failed: bool = False


@dataclass
class Pods:
    """Processes of `forward` behind one address, as Knative's activator has them: who lives and has least to do."""

    forwards: list[Function]
    leases: LeaseClient
    requests: list[Request] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    most: int = 0
    alive: list[Function] = field(default_factory=list)

    async def open_lease(self, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        request = Request(lease.seconds, time.monotonic())
        self.requests.append(request)

        def counted(so_far: Mapping[str, int]) -> None:
            if so_far["delivered"]:
                request.told = min(request.told, time.monotonic())
            meanwhile.counted(so_far)

        url = min(self.alive or self.forwards, key=lambda each: self.open.get(each.url, 0)).url
        self.open[url] = self.open.get(url, 0) + 1
        self.most = max(self.most, sum(self.open.values()))
        try:
            return await self.leases.open(url, lease, meanwhile._replace(counted=counted))
        except Unavailable:
            request.failed = True
            raise
        finally:
            request.ended = time.monotonic()
            self.open[url] -= 1

    def kill(self, *forwards: Function) -> None:
        """SIGKILL."""
        self.alive = [each for each in self.alive if each not in forwards]
        for forward in forwards:
            forward.kill()

    async def revive(self, forward: Function) -> float:
        """It is started again; when it is ready."""
        await asyncio.to_thread(forward.start)
        self.alive.append(forward)
        return time.monotonic()


@pytest.fixture
def forwards(nats_server: NatsServer, tmp_path: Path) -> Iterator[list[Function]]:
    """Two, running."""
    places = [tmp_path / name for name in ("first", "second")]
    for place in places:
        place.mkdir()
    made = [Function("forward", nats_server.url, place) for place in places]
    try:
        yield [forward.start() for forward in made]
    finally:
        for forward in made:
            forward.stop()


@asynccontextmanager
async def scaled(client: Client, lane: Lane, forwards: list[Function]) -> AsyncIterator[Pods]:
    async with LeaseClient(TOKEN) as leases:
        pods = Pods(forwards, leases, alive=list(forwards))
        scaler = Scaler(client, JetStreamApi(client), pods.open_lease, max_in_flight=IN_FLIGHT)
        scaler.serve([lane.channel.stream])
        running = asyncio.create_task(scaler.run())
        try:
            yield pods
        finally:
            running.cancel()
            await asyncio.wait([running])


async def stored(nats: Nats, lane: Lane, events: int) -> None:
    """Without waiting for each PubAck."""
    for number in range(events):
        await nats.client.publish(
            lane.channel.subject,
            b"{}",
            headers={
                "ce-specversion": "1.0",
                "ce-id": f"e{number}",
                "ce-source": "/shop",
                "ce-type": "order.created",
            },
        )
    await nats.client.flush()


async def left(lane: Lane) -> int:
    info = await lane.info()
    return int(info["num_pending"]) + int(info["num_ack_pending"])


async def test_the_first_forward_that_delivers_again_opens_the_way_for_all_leases_at_once(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Say(delay=0.1))
    lane = await own_nats.serve(forwards[0], subscriber=place.uri, lagThreshold=100, maxScale=MOST)
    await stored(own_nats, lane, EVENTS)
    async with scaled(connection, lane, forwards) as pods:
        await place.wait(150)
        pods.kill(*forwards)
        waiting, before = await left(lane), len(pods.requests)
        await asyncio.sleep(1.0)
        ready = await pods.revive(forwards[0])
        await until("no event waits that nobody has had in hands", lambda: pending_is_none(lane))
        caught_up = time.monotonic() - ready
        await until("everything is delivered", lambda: nothing_left(lane))
        all_done = time.monotonic() - ready

    after = pods.requests[before:]
    first = next(request for request in after if not request.failed)
    failed, works = after[: after.index(first)], after[after.index(first) :]
    print(
        f"{waiting} events waited, {len(failed)} leases failed; of the first pod: told of its first event after "
        f"{first.told - ready:.2f} s, caught up after {caught_up:.2f} s, what was in hands after {all_done:.2f} s"
    )
    assert waiting >= 1_900
    assert [request.seconds for request in (*failed, first)] == [SHORT] * (len(failed) + 1)
    # Nobody beside it before it has told, and all others right then, before its end.
    assert [request.seconds for request in works[1:MOST]] == [USUAL] * (MOST - 1)
    assert all(first.told <= request.began < first.ended for request in works[1:MOST])
    assert pods.most == MOST
    assert not any(request.failed for request in works)
    assert len(set(place.ids)) == EVENTS
    # In hands when all were killed.
    assert len(place.ids) - EVENTS <= MOST * IN_FLIGHT


async def test_of_two_forwards_the_one_that_lives_is_tried_at_once_and_what_it_holds_goes_on(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Say(delay=0.1))
    lane = await own_nats.serve(forwards[0], subscriber=place.uri, lagThreshold=100, maxScale=MOST)
    await stored(own_nats, lane, EVENTS)
    async with scaled(connection, lane, forwards) as pods:
        await place.wait(150)
        before = len(pods.requests)
        pods.kill(forwards[1])
        await until("as many leases as before are open", lambda: len(pods.requests) == before + 2)
        after = pods.requests[before:]
        goes_on = [request for request in pods.requests[:before] if not request.failed]

    assert [request.seconds for request in after] == [SHORT, USUAL]
    assert after[0].told <= after[1].began
    # It had not waited for the end of those that go on.
    assert len(goes_on) == 2
    assert all(after[1].began < request.ended for request in goes_on)
    assert pods.most == MOST


async def test_a_trial_that_waits_for_a_slow_subscriber_holds_no_fresh_event_up(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Hold(), Say())
    lane = await own_nats.serve(forwards[0], subscriber=place.uri)
    async with scaled(connection, lane, forwards[:1]) as pods:
        pods.kill(forwards[0])
        await lane.store("slow")
        await hint(own_nats, lane.channel)
        await until("a lease has failed", lambda: any(request.failed for request in pods.requests))
        await pods.revive(forwards[0])
        await place.wait(1)
        await asyncio.sleep(2 * SHORT)
        stored_at = time.monotonic()
        await lane.store("fresh")
        await hint(own_nats, lane.channel)
        _, fresh = await place.wait(2)

        # Far sooner than after the time of a usual lease.
        assert fresh.at - stored_at < USUAL / 2
        assert not next(request for request in pods.requests if not request.failed).ended
        place.release()


async def test_where_there_is_an_order_the_lease_after_a_failure_is_as_long_as_any(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place()
    lane = await own_nats.serve(
        forwards[0], subscriber=place.uri, deliveryOrder="ordered", consumer={"max_ack_pending": 1}
    )
    async with scaled(connection, lane, forwards[:1]) as pods:
        pods.kill(forwards[0])
        await lane.store("a", "b")
        await hint(own_nats, lane.channel)
        await until("a lease has failed", lambda: any(request.failed for request in pods.requests))
        await pods.revive(forwards[0])
        await place.wait(2)

    assert {request.seconds for request in pods.requests} == {USUAL}
    assert (pods.most, place.ids) == (1, ["a", "b"])


async def pending_is_none(lane: Lane) -> bool:
    return bool((await lane.info())["num_pending"] == 0)


async def nothing_left(lane: Lane) -> bool:
    return await left(lane) == 0
