"""Events of one key in their order, different keys in parallel: what a lease does, and what the next one knows."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.functions.functions import Function
from tests.support.functions.ordering import leased_for_ever, numbers, out_of_order, serve_by_key, store_keyed
from tests.support.http.subscriber import Answer, Hold, Received, Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, Lane, Nats, binary_event, metadata
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

SOON = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT0.3S"}
LATER = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT5.2S"}
MUCH_LATER = {"retry": 5, "backoffPolicy": "linear", "backoffDelay": "PT600S"}


def fails_first(*ids: str, times: int = 1, status: int = 503) -> Any:
    """Answers for a place: these events fail so many times."""
    seen: Counter[str] = Counter()

    def choose(request: Received) -> Answer:
        id = request.event["id"]
        seen[id] += 1
        return Say(status) if id in ids and seen[id] <= times else Say(202)

    return choose


async def is_settled(lane: Lane) -> bool:
    info = await lane.info()
    return (info["num_pending"], info["num_ack_pending"]) == (0, 0)


# ── one lease ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_key_is_in_order_and_keys_are_in_parallel(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Hold())
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, *(f"{key}{number}" for number in range(10) for key in "abcd"))
    async with lane.leased(linger=0.3) as lease:
        await place.wait(4)
        place.release()
        answer = await lease
    assert (answer["delivered"], answer["ack_pending"], answer["pending"]) == (40, 0, 0)
    assert numbers(place.received) == {key: list(range(10)) for key in "abcd"}
    assert place.most_at_once == 4


async def test_events_without_the_key_wait_for_nobody(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"] in ("-1", "a1") else Say())
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, "-1", "a1", "-2", "a2", "-3")
    async with lane.leased(linger=0.3) as lease:
        await place.wait(4)
        await asyncio.sleep(0.1)
        assert sorted(place.ids) == ["-1", "-2", "-3", "a1"]
        place.release()
        assert (await lease)["delivered"] == 5


async def test_the_key_may_be_any_attribute(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place().decides(lambda event: Hold() if event.event["id"] == "1" else Say())
    lane = await serve_by_key(nats, forward, subscriber=place.uri, orderKey="subject")
    for id, about in (("1", "x"), ("2", "x"), ("3", "y")):
        await nats.store(lane.channel.subject, b"{}", binary_event(id, subject=about))
    structured = {"specversion": "1.0", "id": "4", "source": "/s", "type": "t", "subject": "x"}
    await nats.store(lane.channel.subject, json.dumps(structured).encode())
    async with lane.leased(linger=0.3) as lease:
        await place.wait(2)
        await asyncio.sleep(0.1)
        # Of two keys nobody promises an order.
        assert sorted(place.ids) == ["1", "3"]
        place.release()
        await lease
    assert place.ids[2:] == ["2", "4"]


@pytest.mark.parametrize("policy", [pytest.param(SOON, id="soon"), pytest.param(LATER, id="later")])
async def test_a_retry_blocks_its_key_and_no_other(
    nats: Nats, forward: Function, subscriber: Subscriber, policy: dict[str, object]
) -> None:
    mended: list[bool] = []
    place = subscriber.place().decides(lambda event: Say(202 if mended or event.event["id"] != "a1" else 503))
    lane = await serve_by_key(nats, forward, subscriber=place.uri, policy={**policy, "retry": 50})
    await store_keyed(lane, "a1", "a2", "a3", "b1", "b2")
    async with leased_for_ever(lane):
        await place.wait(3)
        await store_keyed(lane, "a4", "b3")
        await until("b is through", lambda: numbers(place.received)["b"] == [1, 2, 3])
        assert set(numbers(place.received)["a"]) == {1}
        mended.append(True)
        await until("a is through", lambda: numbers(place.received)["a"][-3:] == [2, 3, 4])
        await until("all is settled", lambda: is_settled(lane))
    came = numbers(place.received)
    assert came == {"a": [1] * (len(came["a"]) - 3) + [2, 3, 4], "b": [1, 2, 3]}
    assert len(came["a"]) >= 5
    assert await lane.aside("stage") == []


@pytest.mark.parametrize("ends", ["parked", "dead_lettered"])
async def test_an_event_that_is_given_up_frees_its_key(
    nats: Nats, forward: Function, subscriber: Subscriber, ends: str
) -> None:
    place = subscriber.place().decides(fails_first("a1", status=400))
    sink = {"dead_letter": subscriber.place().uri} if ends == "dead_lettered" else {}
    lane = await serve_by_key(nats, forward, subscriber=place.uri, **sink)
    await store_keyed(lane, "a1", "a2", "a3")
    answer = await lane.lease()
    assert (answer[ends], answer["delivered"]) == (1, 2)
    assert place.ids == ["a1", "a2", "a3"]


@pytest.mark.parametrize("slots", [1, 2, 4])
async def test_a_blocked_key_leaves_room_for_others(
    nats: Nats, forward: Function, subscriber: Subscriber, slots: int
) -> None:
    place = subscriber.place().decides(fails_first("a0", times=9))
    lane = await serve_by_key(nats, forward, subscriber=place.uri, policy=MUCH_LATER)
    await store_keyed(lane, *(f"a{number}" for number in range(20)), *(f"b{number}" for number in range(5)))
    answer = await lane.lease(max_in_flight=slots, linger=0.5)
    assert numbers(place.received) == {"a": [0], "b": [0, 1, 2, 3, 4]}
    assert (answer["retried"], answer["postponed"], answer["delivered"], answer["ack_pending"]) == (1, 19, 5, 20)
    assert 500 < answer["next_due_seconds"] <= 600
    records = [json.loads(one.data) for one in await lane.aside("stage")]
    assert [(record["key"], record["due"] - records[0]["due"] >= 0) for record in records] == [("a", True)] * 20


async def test_events_behind_one_that_hangs_leave_room_for_other_keys(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"] == "a0" else Say())
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, *(f"a{number}" for number in range(10)), "b0", "b1")
    async with lane.leased(max_in_flight=4, linger=2) as lease:
        await until("b is through", lambda: numbers(place.received)["b"] == [0, 1])
        assert numbers(place.received)["a"] == [0]
        place.release()
        await place.wait(12)
        await lease
    assert numbers(place.received)["a"] == list(range(10))


async def test_more_than_may_wait_in_memory_waits_in_the_stream(
    nats: Nats, shared_server: NatsServer, served_directory: Path, subscriber: Subscriber
) -> None:
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"] == "a0" else Say())
    small = Function("forward", shared_server.url, served_directory, FORWARD_MAX_IN_FLIGHT_BYTES="4194304")
    with small as forward:
        lane = await serve_by_key(nats, forward, subscriber=place.uri)
        await store_keyed(lane, *(f"a{number}" for number in range(12)), "b0", "b1", data=bytes(300_000))
        async with lane.leased(linger=5) as lease:
            await until("b is through", lambda: numbers(place.received)["b"] == [0, 1], seconds=15)
            assert numbers(place.received)["a"] == [0]
            assert await lane.aside("stage") != []
            place.release()
            await place.wait(14)
            assert (await lease)["postponed"] >= 6
    assert numbers(place.received)["a"] == list(range(12))


@pytest.mark.parametrize("slots", [1, 3, 100])
async def test_one_key_alone_is_served_without_pause(
    nats: Nats, forward: Function, subscriber: Subscriber, slots: int
) -> None:
    place = subscriber.place()
    plain, lane = (
        await nats.serve(forward, subscriber=place.uri),
        await serve_by_key(nats, forward, subscriber=place.uri),
    )
    for each in (plain, lane):
        await store_keyed(each, *(f"a{number}" for number in range(150)))
    moments = [time.monotonic()]
    for each, most in ((plain, 1), (lane, slots)):
        assert (await each.lease(max_in_flight=most, linger=1))["delivered"] == 150
        moments.append(time.monotonic())
    assert numbers(place.received[150:])["a"] == list(range(150))
    # One after the other without keys, on the same machine at the same time. The shortest pause, 0.04 s, would add 6 s.
    assert moments[2] - moments[1] < 3 * (moments[1] - moments[0]) + 3


@pytest.mark.parametrize("delay", ["PT0.3S", "PT1S"])
async def test_with_the_room_full_retries_come_back_and_nothing_is_sent_round(
    nats: Nats, forward: Function, subscriber: Subscriber, delay: str
) -> None:
    """More wait than find room, and every key is in its back-off again and again: each delivery has a purpose."""
    place = subscriber.place().decides(fails_first(*(f"{key}{number}" for key in "abcdefg" for number in range(9))))
    lane = await serve_by_key(nats, forward, subscriber=place.uri, policy={**SOON, "backoffDelay": delay})
    await store_keyed(lane, *(f"{key}{number}" for number in range(200) for key in "abcdefg"))
    answer = await lane.lease(seconds=25, linger=1)
    for _ in range(3):
        if not await is_settled(lane):
            again = await lane.lease(seconds=25, linger=1)
            answer = {name: answer[name] + again[name] for name in ("delivered", "retried", "postponed", "returned")}
    assert (answer["delivered"], answer["retried"], answer["postponed"]) == (1400, 63, 0)
    assert (await lane.info())["delivered"]["consumer_seq"] == 1400 + 63 + answer["returned"]
    assert out_of_order(place) == {}


# ── the next lease ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_next_lease_knows_which_keys_are_blocked(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place().decides(fails_first("a1", "b1", times=9))
    lane = await serve_by_key(nats, forward, subscriber=place.uri, policy=MUCH_LATER)
    await store_keyed(lane, "a1", "b1", "a2")
    await lane.lease()
    await store_keyed(lane, "a3", "b2", "c1")
    began = time.monotonic()
    answer = await lane.lease()
    # A take-over that waits for what is put off takes 10 s.
    assert time.monotonic() - began < 7
    assert place.ids[2:] == ["c1"]
    assert (answer["postponed"], answer["delivered"], answer["ack_pending"]) == (2, 1, 5)


async def test_leases_that_follow_one_another_hand_over_at_once(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    for number in range(5):
        await store_keyed(lane, f"a{number}")
        began = time.monotonic()
        assert (await lane.lease(linger=0.3))["delivered"] == 1
        # A pin that is not given up is held for 5 s.
        assert time.monotonic() - began < 4
    [group] = (await lane.info())["priority_groups"]
    assert "pinned_client_id" not in group


async def test_a_lease_without_time_gives_back_who_waits_and_the_next_keeps_the_order(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.05))
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, *(f"{key}{number}" for number in range(12) for key in "ab"))
    for _ in range(20):
        await lane.lease(seconds=0.2)
    assert numbers(place.received) == {"a": list(range(12)), "b": list(range(12))}


async def test_what_can_not_be_delivered_when_nats_is_too_old_is_not_delivered_out_of_order(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    """What a server before 2.11 makes of the consumer: it drops the settings that pin one lease."""
    channel = await nats.make_channel()
    said = metadata(channel, subscriber=subscriber.place().uri, deliveryOrder="by-key")
    durable = await nats.make_consumer(channel, {METADATA_KEY: json.dumps(said)})
    status, answer = await Lane(nats, forward, channel, durable).ask()
    assert (status, answer["title"]) == (409, "Not deliverable")
    assert "2.11" in answer["detail"]


# ── two leases at once ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_leases_at_once_keep_the_order(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    """One of them is served at a time; while the subscriber is slow, too."""
    place = subscriber.place().decides(lambda request: Say(202, delay=6.5 if request.event["id"] == "a3" else 0.01))
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, *(f"a{number}" for number in range(30)))
    answers = await asyncio.gather(lane.lease(linger=1), lane.lease(linger=8, max_in_flight=3))
    assert sum(answer["delivered"] for answer in answers) == 30
    assert numbers(place.received)["a"] == list(range(30))
    assert out_of_order(place) == {}
