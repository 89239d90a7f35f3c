"""The news of a lease before its answer: how its events ended, so that counts grow with them, and not every 20 s."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headrace.core.delivery.lease import Lease
from headrace.core.errors import Unavailable
from headrace_operator.scaling import lease_client
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from tests.support.functions.functions import Function
from tests.support.functions.scaling import TOKEN, Scale, hint
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served", "tests.support.functions.scaled"]


@pytest.fixture(autouse=True)
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_client, "PROGRESS_SECONDS", 0.1)


@pytest.fixture
def mortal(nats_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    """A `forward` that the test may end."""
    with Function("forward", nats_server.url, tmp_path) as function:
        yield function


async def test_a_lease_tells_what_it_has_done_while_it_goes_on(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(), Say(), Hold())
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("a", "b", "c")
    told: list[Mapping[str, int]] = []
    async with LeaseClient(TOKEN) as client:
        wanted = Lease(lane.channel.stream, lane.consumer, linger=0.2)
        lease = asyncio.create_task(client.open(forward.url, wanted, Meanwhile(counted=told.append)))
        await until("two are counted", lambda: bool(told) and told[-1]["delivered"] == 2)
        assert not lease.done()
        said = len(told)
        # One that does nothing says nothing.
        await asyncio.sleep(0.5)
        assert len(told) == said
        place.release()
        answer = await lease
    assert answer.counts["delivered"] == 3
    assert told[-1] == answer.counts
    assert [each["delivered"] for each in told] == sorted(each["delivered"] for each in told)


async def test_a_lease_that_can_do_nothing_yet_says_once_that_it_pulls(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place().uri)
    told: list[Mapping[str, int]] = []
    async with LeaseClient(TOKEN) as client:
        wanted = Lease(lane.channel.stream, lane.consumer, linger=1.0)
        answer = await client.open(forward.url, wanted, Meanwhile(counted=told.append))
    assert [sum(each.values()) for each in told] == [0, 0]
    assert told[-1] == answer.counts


async def test_that_its_process_ends_is_told_in_an_answer_that_has_begun(
    own_nats: Nats, mortal: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(), Hold())
    lane = await own_nats.serve(mortal, subscriber=place.uri)
    await lane.store("a", "b")
    ending, counted = asyncio.Event(), asyncio.Event()
    async with LeaseClient(TOKEN) as client:
        wanted = Lease(lane.channel.stream, lane.consumer)
        meanwhile = Meanwhile(ending.set, lambda _: counted.set())
        lease = asyncio.create_task(client.open(mortal.url, wanted, meanwhile))
        async with asyncio.timeout(30):
            await counted.wait()
        assert not ending.is_set()
        mortal.terminate()
        async with asyncio.timeout(30):
            await ending.wait()
        assert not lease.done()
        place.release()
        answer = await lease
    assert answer.counts["delivered"] == 2
    assert mortal.wait() == 0


async def test_a_failure_in_an_answer_that_has_begun_is_told_as_forwards_own(
    nats_server: NatsServer, own_nats: Nats, mortal: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(), Hold())
    lane = await own_nats.serve(mortal, subscriber=place.uri)
    await lane.store("a", "b")
    counted = asyncio.Event()
    async with LeaseClient(TOKEN) as client:
        wanted = Lease(lane.channel.stream, lane.consumer, seconds=1.0, linger=0.2)
        lease = asyncio.create_task(client.open(mortal.url, wanted, Meanwhile(counted=lambda _: counted.set())))
        async with asyncio.timeout(30):
            await counted.wait()
        nats_server.kill()
        place.release()
        with pytest.raises(Unavailable) as told:
            await lease
    assert str(told.value).startswith(f"forward at {mortal.url} answered 503: ")
    assert "title" not in str(told.value)


async def test_the_scaler_counts_events_while_their_lease_is_open_and_each_once(
    own_nats: Nats, mortal: Function, subscriber: Subscriber, scale: Scale
) -> None:
    place = subscriber.place(Say(), Say(), Hold())
    lane = await own_nats.serve(mortal, subscriber=place.uri)
    async with scale(lane.channel, uri=mortal.url) as running:

        def delivered() -> tuple[int, int]:
            [row] = running.scaler.stats()["consumers"].values()
            return row["events"]["delivered"], row["open"]

        await lane.store("a", "b", "c")
        await hint(own_nats, lane.channel)
        await until("two are counted", lambda: delivered() == (2, 1))
        place.release()
        await until("all are counted, once", lambda: delivered() == (3, 0))


async def test_what_a_lease_has_told_of_counts_also_when_it_breaks(
    own_nats: Nats, mortal: Function, subscriber: Subscriber, scale: Scale
) -> None:
    place = subscriber.place(Say(), Say(), Hold())
    lane = await own_nats.serve(mortal, subscriber=place.uri)
    async with scale(lane.channel, uri=mortal.url) as running:
        await lane.store("a", "b", "c")
        await hint(own_nats, lane.channel)

        def row() -> tuple[int, bool]:
            [row] = running.scaler.stats()["consumers"].values()
            return row["events"]["delivered"], row["failures"] > 0

        await until("two are counted", lambda: row() == (2, False))
        mortal.kill()
        await until("the lease has broken", lambda: row() == (2, True))
