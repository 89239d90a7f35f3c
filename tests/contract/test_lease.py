"""The pulling of a lease: how it ends, what it holds at most, what it gives back, and what survives its end.

A real `forward` process and a real nats-server, killed where that is what the test is about.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.functions import Function
from tests.support.nats_server import NatsServer
from tests.support.streams import Lane, Nats
from tests.support.subscriber import Hold, Say, Subscriber
from tests.support.waiting import beside, until

pytest_plugins = ["tests.support.served"]

LATE = 0.5
"""How much later than due, in seconds, a lease may end on a busy machine."""


def numbered(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


async def is_settled(lane: Lane) -> bool:
    info = await lane.info()
    return (info["num_pending"], info["num_ack_pending"]) == (0, 0)


# ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lease_on_an_empty_consumer_ends_after_the_linger(nats: Nats, forward: Function) -> None:
    lane = await nats.serve(forward, subscriber="http://127.0.0.1/")
    began = time.monotonic()
    answer = await lane.lease(linger=0.5)
    assert 0.5 <= time.monotonic() - began <= 0.5 + LATE
    assert answer == {
        "delivered": 0,
        "retried": 0,
        "dead_lettered": 0,
        "parked": 0,
        "replied": 0,
        "redelivered": 0,
        "returned": 0,
        "skipped": 0,
        "stuck": 0,
        "unsettled": 0,
        "pending": 0,
        "ack_pending": 0,
        "next_due_seconds": None,
    }


async def test_a_lease_ends_one_linger_after_the_last_event(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    async with lane.leased(linger=0.6) as lease:
        await asyncio.sleep(0.2)
        await lane.store("1")
        assert (await lease)["delivered"] == 1
    # The event was here a moment before it was there.
    assert 0.55 <= time.monotonic() - place.received[0].at <= 0.6 + LATE


async def test_a_lease_ends_with_its_seconds_though_events_go_on_coming(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    began = time.monotonic()
    async with lane.leased(seconds=0.8, linger=5) as lease:
        while not lease.done():
            await lane.store(str(time.monotonic()))
            await asyncio.sleep(0.02)
        answer = await lease
    assert 0.8 <= time.monotonic() - began <= 0.8 + LATE
    assert answer["delivered"] == len(place.received) > 10


async def test_a_lease_that_has_no_time_left_finishes_what_is_in_hand_and_leaves_the_rest(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.4))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(10))
    answer = await lane.lease(seconds=0.2, max_in_flight=3)
    assert (answer["delivered"], answer["pending"], answer["ack_pending"]) == (3, 7, 0)
    assert sorted(place.ids) == ["0", "1", "2"]


async def test_a_lease_answers_what_became_of_each_event(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    statuses = {"ok": 202, "later": 503, "never": 400}
    place = subscriber.place().decides(lambda request: Say(statuses[request.event["id"]]))
    policy = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT20S"}
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=subscriber.place().uri, policy=policy)
    await lane.store("ok", "later", "never")
    answer = await lane.lease()
    counts = {key: value for key, value in answer.items() if isinstance(value, int) and value}
    assert counts == {"delivered": 1, "retried": 1, "dead_lettered": 1, "ack_pending": 1}
    assert 18 < answer["next_due_seconds"] <= 20


async def test_nothing_is_pulled_while_no_lease_is_open(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("1")
    await lane.take_one()
    await lane.store("2")
    await asyncio.sleep(0.4)
    info = await lane.info()
    assert (info["num_waiting"], info["num_pending"], info["num_ack_pending"]) == (0, 1, 0)
    assert place.ids == ["1"]


# ── what it holds ───────────────────────────────────────────────────────────────────────────────────────────────────


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
    place = subscriber.place(Say(202, delay=0.03))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(30))
    assert (await lane.lease(max_in_flight=4))["delivered"] == 30
    assert place.most_at_once == 4


async def test_never_more_events_are_in_hand_than_the_process_allows(
    nats: Nats, narrow: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.03))
    lane = await nats.serve(narrow, subscriber=place.uri)
    await lane.store(*numbered(30))
    assert (await lane.lease(max_in_flight=5000))["delivered"] == 30
    assert place.most_at_once == 6


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
        began = time.monotonic()
        await lane.store(*numbered(8))
        await place.wait(11)
        assert time.monotonic() - began < 1.5
        assert not lease.done()
        place.release()
        assert (await lease)["delivered"] == 11


async def test_two_leases_at_once_deliver_each_event_once(
    nats: Nats, forward: Function, narrow: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.01))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(150))
    other = Lane(nats, narrow, lane.channel, lane.consumer)
    answers = await asyncio.gather(lane.lease(), lane.lease(), other.lease())
    assert sum(answer["delivered"] for answer in answers) == 150
    assert min(answer["delivered"] for answer in answers) > 0
    assert Counter(place.ids) == Counter(numbered(150))


async def test_a_rate_limit_slows_the_lease(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place()
    # 10,000 bytes in a second, for the one lease that there may be.
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=80_000, maxScale=1)
    await lane.store(*numbered(12), data=bytes(880))
    assert (await lane.lease())["delivered"] == 12
    assert 0.9 <= place.received[-1].at - place.received[0].at <= 1.1 + LATE


async def test_a_rate_limit_is_shared_by_the_leases_that_there_may_be(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=160_000, maxScale=2)
    await lane.store(*numbered(24), data=bytes(880))
    await asyncio.gather(lane.lease(), lane.lease())
    assert len(place.received) == 24
    assert 0.9 <= place.received[-1].at - place.received[0].at <= 1.4 + LATE


async def test_a_rate_limit_holds_over_leases_one_after_the_other(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, rateLimitBPS=8_000, maxScale=1)
    await lane.store(*numbered(12), data=bytes(880))
    for _ in range(3):
        await lane.lease(seconds=0.3)
    assert len(place.received) <= 3


# ── what it gives back ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lease_whose_client_goes_away_finishes_what_is_in_hand_and_gives_back_the_rest(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"] in ("a", "b") else Say())
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("a", "b")
    async with lane.leased(max_in_flight=4, linger=3):
        await place.wait(2)
        await until("it pulls for more", lambda: _is_pulling(lane))
    await asyncio.sleep(0.2)
    await lane.store("c")
    began = time.monotonic()
    answer = await lane.lease(linger=1)
    assert (answer["delivered"], time.monotonic() - began < 3) == (1, True)
    assert sorted(place.ids) == ["a", "b", "c"]
    assert (await lane.info())["num_ack_pending"] == 2
    place.release()
    await until("what was in hand is settled", lambda: is_settled(lane))
    assert (await lane.lease(linger=0.2))["delivered"] == 0
    assert sorted(place.ids) == ["a", "b", "c"]


async def test_a_lease_that_ends_in_the_middle_of_a_burst_leaves_no_event_to_the_ack_wait(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.01))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store(*numbered(300))
    async with lane.leased(max_in_flight=60):
        await place.wait(20)
    began = time.monotonic()
    await lane.lease(linger=0.5)
    await until("all is settled", lambda: is_settled(lane), seconds=1)
    assert time.monotonic() - began < 5
    assert Counter(place.ids) == Counter(numbered(300))


async def test_a_client_that_goes_away_before_anything_came_leaves_nobody_pulling(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    async with lane.leased(linger=5):
        await until("it pulls", lambda: _is_pulling(lane))
    await until("nobody pulls", lambda: _is_free(lane), seconds=1)
    await lane.store("1")
    await asyncio.sleep(0.2)
    assert place.received == []


async def _is_pulling(lane: Lane) -> bool:
    return bool((await lane.info())["num_waiting"])


async def _is_free(lane: Lane) -> bool:
    return not await _is_pulling(lane)


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
