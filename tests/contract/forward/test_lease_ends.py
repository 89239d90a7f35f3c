"""Leases in the worst moments: SIGTERM, a killed `forward`, a killed NATS server, a subscriber that takes very long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headrace.core.delivery.lease import Lease
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from tests.support.functions.functions import TOKEN, Function
from tests.support.functions.in_process import InProcess
from tests.support.http.relay import Relay
from tests.support.http.sending import Reply, send
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Lane, Nats
from tests.support.waiting import beside, until

pytest_plugins = ["tests.support.functions.served"]


@pytest.fixture
def mortal(shared_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    """A `forward` that the test may end."""
    with Function("forward", shared_server.url, tmp_path) as function:
        yield function


async def test_sigterm_finishes_what_is_in_hand_answers_and_gives_back_the_rest(
    nats: Nats, mortal: Function, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold(), Hold(), Say())
    lane = await nats.serve(mortal, subscriber=place.uri)
    await lane.store("a", "b")
    async with lane.leased(linger=1) as lease:
        await place.wait(2)
        mortal.terminate()
        await asyncio.sleep(0.3)
        await lane.store("c")
        await asyncio.sleep(0.2)
        assert not lease.done()
        place.release()
        answer = await lease
    assert (answer["delivered"], sorted(place.ids)) == (2, ["a", "b"])
    assert mortal.wait() == 0
    began = time.monotonic()
    assert (await Lane(nats, forward, lane.channel, lane.consumer).lease(linger=1))["delivered"] == 1
    # Long before the ack wait of 8 s.
    assert time.monotonic() - began < 6
    assert sorted(place.ids) == ["a", "b", "c"]


async def test_a_lease_says_at_once_that_its_process_ends_and_answers_when_its_subscribers_have(
    nats: Nats, mortal: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold())
    lane = await nats.serve(mortal, subscriber=place.uri)
    await lane.store("a")
    ending = asyncio.Event()
    async with LeaseClient(TOKEN) as client:
        wanted = Lease(lane.channel.stream, lane.consumer)
        lease = asyncio.create_task(client.open(mortal.url, wanted, Meanwhile(ending.set)))
        await place.wait(1)
        assert not ending.is_set()
        mortal.terminate()
        async with asyncio.timeout(20):
            await ending.wait()
        assert not lease.done()
        place.release()
        answer = await lease
    assert answer.counts["delivered"] == 1
    assert mortal.wait() == 0


async def test_what_was_on_its_way_when_the_client_went_away_is_given_back_at_once(
    nats: Nats, shared_server: NatsServer, forward: Function, subscriber: Subscriber, tmp_path: Path
) -> None:
    place = subscriber.place()
    async with Relay(shared_server.port) as relay:
        behind = Function("forward", f"nats://127.0.0.1:{relay.port}", tmp_path)
        await asyncio.to_thread(behind.start)
        try:
            lane = await nats.serve(behind, subscriber=place.uri)
            async with lane.leased():
                await until("it pulls", lambda: _waits(lane))
                relay.hold()
                await lane.store("a", "b", "c")
                await until("all is on its way", lambda: _is_in_hand(lane, 3))
            await asyncio.sleep(0.3)
            relay.release()
            began = time.monotonic()
            answer = await Lane(nats, forward, lane.channel, lane.consumer).lease(linger=1)
            assert (answer["delivered"], answer["redelivered"], answer["ack_pending"]) == (3, 3, 0)
            # Long before the ack wait of 8 s.
            assert time.monotonic() - began < 6
            assert sorted(place.ids) == ["a", "b", "c"]
        finally:
            await asyncio.to_thread(behind.stop)


async def _waits(lane: Lane) -> bool:
    return bool((await lane.info())["num_waiting"])


async def _is_in_hand(lane: Lane, count: int) -> bool:
    return bool((await lane.info())["num_ack_pending"] == count)


async def test_a_lease_that_was_asked_for_while_the_process_began_to_end_pulls_nothing(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", shared_server.url)
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    place = subscriber.place()
    with InProcess("forward") as forward:
        lane = await nats.serve(forward, subscriber=place.uri)
        await lane.lease(linger=0.05)
        await lane.store("1")
        shared_server.freeze()
        try:
            async with lane.leased() as lease:
                await asyncio.sleep(0.3)
                forward.app.drain()
                shared_server.thaw()
                answer = await asyncio.wait_for(lease, 4)
        finally:
            shared_server.thaw()
    assert (answer["delivered"], answer["pending"], place.received) == (0, 1, [])


async def test_a_draining_process_opens_no_lease(
    nats: Nats, shared_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", shared_server.url)
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    with InProcess("forward") as forward:
        lane = await nats.serve(forward, subscriber="http://127.0.0.1/")
        await lane.lease(linger=0.05)
        forward.app.drain()
        status, answer = await lane.ask()
    assert (status, answer["detail"]) == (503, "this process is ending: open the lease again")


async def test_what_a_killed_process_had_in_hand_is_delivered_by_another_after_the_ack_wait(
    nats: Nats, forward: Function, mortal: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold(), Say(202))
    # The server's own part, shortened: 8 s would prove the same.
    lane = await nats.serve(mortal, subscriber=place.uri, consumer={"ack_wait": 1_000_000_000})
    await lane.store("1")
    async with lane.leased() as lease:
        await place.wait(1)
        mortal.kill()
        with pytest.raises(aiohttp.ClientConnectionError):
            await lease
    answer = await Lane(nats, forward, lane.channel, lane.consumer).take_one()
    assert (answer["delivered"], answer["redelivered"], answer["ack_pending"]) == (1, 1, 0)
    assert place.ids == ["1", "1"]


async def test_a_lease_outlives_a_crash_of_the_server(tmp_path: Path, subscriber: Subscriber) -> None:
    server = NatsServer(tmp_path / "nats").start()
    place = subscriber.place(Say(202, delay=0.02))
    try:
        async with Nats(server.url) as nats:
            with Function("forward", server.url, tmp_path) as forward:
                lane = await nats.serve(forward, subscriber=place.uri)
                await lane.store(*map(str, range(60)))
                async with lane.leased(linger=1.5, max_in_flight=4) as lease:
                    await place.wait(20)
                    server.kill()
                    await asyncio.sleep(0.5)
                    server.start()
                    async with Nats(server.url) as after:
                        await Lane(after, forward, lane.channel, lane.consumer).store("after")
                    await until("the last event is there", lambda: "after" in place.ids)
                    await lease
                assert {*map(str, range(60)), "after"} == set(place.ids)
    finally:
        server.kill()


# ── NATS away ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def mounted_token(served_directory: Path) -> Path:
    """A file with the token, as Kubernetes mounts it."""
    file = served_directory / "token"
    mount(file, f"{TOKEN}\n")
    return file


@pytest.fixture(scope="module")
def lost(served_directory: Path, mounted_token: Path) -> Iterator[Function]:
    """A `forward` whose NATS is not there, and whose token is mounted."""
    url = f"nats://127.0.0.1:{free_port()}"
    settings = {"HEADRACE_TOKEN": "", "HEADRACE_TOKEN_FILE": str(mounted_token)}
    with Function("forward", url, served_directory, ready=False, **settings) as function:
        yield function


@pytest.fixture(scope="module", autouse=True)
def asked_in_vain(lost: Function) -> Future[Reply]:
    """What comes of a lease there; begun before the other tests, since it takes 5 s."""
    return beside(call(lost, b'{"stream": "S", "consumer": "C"}', TOKEN))


def mount(file: Path, token: str) -> None:
    file.write_text(token)


async def call(function: Function, body: bytes, token: str) -> Reply:
    return await send(function.url, body, {"authorization": f"Bearer {token}"})


async def test_a_rotated_token_takes_effect_without_a_restart(lost: Function, mounted_token: Path) -> None:
    async def shows(token: str) -> int:
        return (await call(lost, b"", token)).status

    # Without a body the call is refused for that, once it may be made at all.
    assert (await shows(TOKEN), await shows("second")) == (400, 401)
    mount(mounted_token, "second\n")
    assert (await shows(TOKEN), await shows("second")) == (401, 400)
    mount(mounted_token, "")
    assert (await shows(""), await shows("second")) == (500, 500)
    mount(mounted_token, TOKEN)


def test_without_a_server_there_is_no_lease_for_now(asked_in_vain: Future[Reply]) -> None:
    reply = asked_in_vain.result(20)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")


# ── a slow subscriber ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", autouse=True)
def slow_delivery(
    shared_server: NatsServer, forward: Function, subscriber: Subscriber
) -> Iterator[Future[tuple[list[str], list[dict[str, Any]]]]]:
    """One event for a subscriber that takes 12 s, begun before the other tests: what came, and what leases said."""
    place = subscriber.place(Say(202, delay=12))

    async def deliver() -> tuple[list[str], list[dict[str, Any]]]:
        async with Nats(shared_server.url) as nats:
            lane = await nats.serve(forward, subscriber=place.uri)
            await lane.store("1")
            # It pulls all the time, so that an event that is due again would come.
            answers = [await lane.lease(linger=0.3), await lane.lease(linger=0.3)]
        return place.ids, answers

    delivery = beside(deliver())
    yield delivery
    delivery.result(30)


def test_an_event_is_delivered_once_though_its_subscriber_takes_longer_than_the_ack_wait(
    slow_delivery: Future[tuple[list[str], list[dict[str, Any]]]],
) -> None:
    ids, answers = slow_delivery.result(30)
    assert ids == ["1"]
    assert [(one["delivered"], one["redelivered"], one["ack_pending"]) for one in answers] == [(1, 0, 0), (0, 0, 0)]
