"""How much a lease holds at once: bounded by count, by bytes and by rate, and never in the way of fresh events."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]


def numbered(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@pytest.fixture(scope="module")
def narrow(shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    """A `forward` that holds at most 6 events and 2 MiB of them."""
    function = Function(
        "forward",
        shared_server.url,
        served_directory,
        FORWARD_MAX_IN_FLIGHT="6",
        FORWARD_MAX_IN_FLIGHT_BYTES="2097152",
    )
    with function:
        yield function


async def test_never_more_events_are_in_hand_than_the_lease_asks_for(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold())
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(30))
    async with lane.leased(max_in_flight=4, linger=0.3) as lease:
        await place.wait(4)
        place.release()
        assert (await lease)["delivered"] == 30
    assert place.most_at_once == 4


async def test_never_more_events_are_in_hand_than_the_process_allows(
    nats: Nats, narrow: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold())
    lane = await nats.serve(narrow, subscriber=place.uri)
    await lane.store(*numbered(30))
    async with lane.leased(max_in_flight=5000, linger=0.3) as lease:
        await place.wait(6)
        place.release()
        assert (await lease)["delivered"] == 30
    assert place.most_at_once == 6


async def test_more_events_wait_for_a_quick_subscriber_than_are_in_its_hands_and_each_comes_once(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.001))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(2000))

    async def more_are_pulled() -> bool:
        return int((await lane.info())["num_ack_pending"]) > 4

    async with lane.leased(max_in_flight=4, linger=0.3) as lease:
        await until("more are pulled than may be in hand", more_are_pulled)
        answer = await lease
    assert (answer["delivered"], answer["redelivered"], answer["returned"]) == (2000, 0, 0)
    assert place.most_at_once == 4
    assert Counter(place.ids) == Counter(numbered(2000))


async def test_never_more_bytes_are_in_hand_than_the_process_allows(
    nats: Nats, narrow: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.1))
    lane = await nats.serve(narrow, subscriber=place.uri)
    await lane.store(*numbered(8), data=bytes(600_000))
    assert (await lane.lease(max_in_flight=6))["delivered"] == 8
    # Three of them are 1.8 MB, four would be 2.4 MB.
    assert 2 <= place.most_at_once <= 3


async def test_fresh_events_flow_while_others_hang(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"].startswith("slow") else Say())
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(3, "slow"))
    async with lane.leased(max_in_flight=4, linger=0.3) as lease:
        await place.wait(3)
        await lane.store(*numbered(8))
        await place.wait(11)
        assert not lease.done()
        place.release()
        assert (await lease)["delivered"] == 11


async def test_two_leases_at_once_deliver_each_event_once(
    nats: Nats, forward: Function, narrow: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold(Say(202)))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(150))
    other = Lane(nats, narrow, lane.channel, lane.consumer)
    leases = asyncio.gather(lane.lease(), lane.lease(), other.lease())
    # Each has what it may hold, so that none can be done before another has begun.
    await place.wait(20 + 20 + 6)
    place.release()
    answers = await leases
    assert sum(answer["delivered"] for answer in answers) == 150
    assert min(answer["delivered"] for answer in answers) > 0
    assert Counter(place.ids) == Counter(numbered(150))


async def test_a_rate_limit_slows_the_lease(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place()
    # 10,000 bytes in a second, for the one lease that there may be.
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=80_000, maxScale=1)
    await lane.store(*numbered(12), data=bytes(880))
    began = time.monotonic()
    assert (await lane.lease())["delivered"] == 12
    # A limit says how fast at most; how much slower a busy machine is, for the first event too, says nothing about it.
    assert 0.9 <= place.received[-1].at - began <= 20


async def test_a_rate_limit_is_shared_by_the_leases_that_there_may_be(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=160_000, maxScale=2)
    await lane.store(*numbered(24), data=bytes(880))
    began = time.monotonic()
    await asyncio.gather(lane.lease(), lane.lease())
    assert len(place.received) == 24
    assert 0.9 <= place.received[-1].at - began <= 20


async def test_a_lease_does_not_end_while_its_rate_limit_forbids_it_to_ask(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    # About half a second for each, which is longer than the lease lingers.
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=16_000, maxScale=1)
    await lane.store("1", "2", "3", data=bytes(880))
    assert (await lane.lease(linger=0.1))["delivered"] == 3


async def test_a_rate_limit_holds_over_leases_one_after_the_other(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=8_000, maxScale=1)
    await lane.store(*numbered(12), data=bytes(880))
    for _ in range(3):
        await lane.lease(seconds=0.3)
    assert len(place.received) <= 3
