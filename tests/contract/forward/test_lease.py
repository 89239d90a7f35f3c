"""The pulling of a lease: how it ends, what it answers, what it gives back, and what survives its end.

A real `forward` process and a real nats-server, killed where that is what the test is about.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.streams import Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

LATE = 4.0
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
        "postponed": 0,
        "stuck": 0,
        "unsettled": 0,
        "discarded": 0,
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


async def test_a_lease_that_could_not_ask_for_more_goes_on_when_it_can(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    """Its subscriber takes longer for one event than it lingers, and it may hold no more."""
    place = subscriber.place(Say(202, delay=0.3))
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("1", "2", "3")
    assert (await lane.lease(max_in_flight=1, linger=0.1))["delivered"] == 3


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
    assert (answer["delivered"], time.monotonic() - began < 6) == (1, True)
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
    await until("all is settled", lambda: is_settled(lane))
    # Long before the ack wait of 8 s.
    assert time.monotonic() - began < 7
    assert Counter(place.ids) == Counter(numbered(300))


async def test_a_client_that_goes_away_before_anything_came_leaves_nobody_pulling(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    async with lane.leased(linger=5):
        await until("it pulls", lambda: _is_pulling(lane))
    await until("nobody pulls", lambda: _is_free(lane), seconds=4)
    await lane.store("1")
    await asyncio.sleep(0.2)
    assert place.received == []


async def _is_pulling(lane: Lane) -> bool:
    return bool((await lane.info())["num_waiting"])


async def _is_free(lane: Lane) -> bool:
    return not await _is_pulling(lane)
