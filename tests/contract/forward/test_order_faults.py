"""Order under retries, SIGKILL, restarts and leases that compete: real processes, and seeds that repeat a run.

No event may come after a later one of its key has, whatever dies between; repetitions are allowed, as everywhere.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import Unavailable
from headrace.core.nats.jetstream import Message
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from tests.support.functions.functions import Function
from tests.support.functions.ordering import (
    leased_for_ever,
    numbers,
    out_of_order,
    serve_by_key,
    serve_ordered,
    store_keyed,
)
from tests.support.http.subscriber import Answer, Hold, Place, Received, Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

POLICY = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.2S", "retryAfterMax": "PT0S"}
SERVE = {"by-key": serve_by_key, "ordered": serve_ordered}
# A crash costs the ack wait of 8 s, and each run has two of them.
LONGEST_RUN = 60.0
BACK_TO_WORK = 12.0


@pytest.fixture
def pair(shared_server: NatsServer, tmp_path: Path) -> Iterator[tuple[Function, Function]]:
    """Two `forward`s that the test may kill."""
    with (
        Function("forward", shared_server.url, tmp_path) as first,
        Function("forward", shared_server.url, tmp_path) as second,
    ):
        yield first, second


def moody(chance: random.Random, retried: float) -> Any:
    """Answers that take their time, and sometimes ask for a retry."""

    def choose(_: Received) -> Answer:
        return Say(503 if chance.random() < retried else 202, delay=chance.random() * 0.02)

    return choose


def through(place: Place, wanted: dict[str, int]) -> bool:
    return all(set(numbers(place.received)[key]) == set(range(count)) for key, count in wanted.items())


@pytest.mark.parametrize(("order", "keys"), [("by-key", "abcd"), ("ordered", "a")])
@pytest.mark.parametrize("seed", [1, 2])
async def test_order_is_kept_by_two_processes_that_are_killed_and_started_again(
    nats: Nats, pair: tuple[Function, Function], subscriber: Subscriber, order: str, keys: str, seed: int
) -> None:
    chance = random.Random(seed)
    place = subscriber.place().decides(moody(chance, 0.1))
    lane = await SERVE[order](nats, pair[0], subscriber=place.uri, policy=POLICY)
    wanted = dict.fromkeys(keys, 60 // len(keys))
    async with leased_for_ever(*(Lane(nats, function, lane.channel, lane.consumer) for function in pair)):
        for number in range(wanted["a"]):
            await store_keyed(lane, *(f"{key}{number}" for key in keys))
            await asyncio.sleep(chance.random() * 0.05)
            if number in (wanted["a"] // 3, 2 * wanted["a"] // 3):
                dying = pair[chance.randrange(2)]
                await asyncio.to_thread(dying.kill)
                await asyncio.to_thread(dying.start)
        await until("all is through", lambda: through(place, wanted), LONGEST_RUN)
    assert out_of_order(place) == {}


@pytest.mark.parametrize("order", ["by-key", "ordered"])
async def test_a_killed_forward_is_followed_by_one_that_keeps_the_order(
    nats: Nats, pair: tuple[Function, Function], subscriber: Subscriber, order: str
) -> None:
    """Killed while the first event is in the subscriber's hands: fresh ones wait until it came back."""
    place = subscriber.place(Hold(), Say())
    lane = await SERVE[order](nats, pair[0], subscriber=place.uri)
    await store_keyed(lane, "a0", "a1", "a2")
    async with lane.leased():
        await place.wait(1)
        await asyncio.to_thread(pair[0].kill)
    died = time.monotonic()
    place.release()
    successor = Lane(nats, pair[1], lane.channel, lane.consumer)
    async with leased_for_ever(successor):
        await store_keyed(lane, "a3")
        await place.wait(5)
    assert place.ids == ["a0", "a0", "a1", "a2", "a3"]
    assert place.received[1].at - died < BACK_TO_WORK


@pytest.mark.parametrize("order", ["by-key", "ordered"])
async def test_after_sigterm_the_successor_goes_on_at_once(
    nats: Nats, pair: tuple[Function, Function], subscriber: Subscriber, order: str
) -> None:
    place = subscriber.place(Say(202, delay=0.3))
    lane = await SERVE[order](nats, pair[0], subscriber=place.uri)
    await store_keyed(lane, *(f"a{number}" for number in range(6)))
    async with lane.leased() as lease:
        await place.wait(2)
        pair[0].terminate()
        await lease
    ended = time.monotonic()
    answer = await Lane(nats, pair[1], lane.channel, lane.consumer).lease(linger=0.5)
    assert place.ids == [f"a{number}" for number in range(6)]
    [next_one] = [one for one in place.received if one.at > ended][:1]
    # A pin that is not given up is held for 5 s.
    assert next_one.at - ended < 4
    assert answer["redelivered"] <= 5


async def test_a_lease_that_lost_its_place_starts_nothing_more(
    nats: Nats, pair: tuple[Function, Function], subscriber: Subscriber
) -> None:
    """Somebody unpins it: another lease comes in, waits for what is in hand, and goes on after that."""
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"] == "a0" else Say())
    lane = await serve_by_key(nats, pair[0], subscriber=place.uri)
    await store_keyed(lane, "a0", "a1", "b0")
    other = Lane(nats, pair[1], lane.channel, lane.consumer)
    async with lane.leased() as first, other.leased(linger=8) as second:
        await place.wait(2)
        await nats.call(f"CONSUMER.UNPIN.{lane.channel.stream}.{lane.consumer}", {"group": "headrace"})
        await store_keyed(lane, "b1", "a2")
        await asyncio.sleep(3)
        assert "a1" not in place.ids
        place.release()
        await place.wait(5)
        await asyncio.gather(first, second)
    assert out_of_order(place) == {}
    assert sorted(place.ids) == ["a0", "a1", "a2", "b0", "b1"]


@pytest.mark.parametrize("killed", [False, True])
async def test_two_processes_on_one_by_key_consumer_deliver_each_event_once_but_for_what_a_kill_had_in_hand(
    nats: Nats, pair: tuple[Function, Function], subscriber: Subscriber, killed: bool
) -> None:
    chance = random.Random(7)
    place = subscriber.place().decides(moody(chance, 0.0))
    lane = await serve_by_key(nats, pair[0], subscriber=place.uri, policy=POLICY)
    keys, count = "abcd", 20
    async with leased_for_ever(*(Lane(nats, function, lane.channel, lane.consumer) for function in pair)):
        for number in range(count):
            await store_keyed(lane, *(f"{key}{number}" for key in keys))
            if killed and number == count // 2:
                await place.wait(1)
                await asyncio.to_thread(pair[0].kill)
                await asyncio.to_thread(pair[0].start)
        await until("all is through", lambda: through(place, dict.fromkeys(keys, count)), LONGEST_RUN)
    assert out_of_order(place) == {}
    twice = {one: times for one, times in Counter(place.ids).items() if times > 1}
    # One of each key is in hand at a time, and it is acknowledged before the next one of its key goes out.
    assert len({one[0] for one in twice}) == len(twice), twice
    assert max(twice.values(), default=1) <= 2
    assert killed or twice == {}


# ── NATS itself ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("order", "keys"), [("by-key", "abcd"), ("ordered", "a")])
async def test_order_is_kept_over_a_restart_of_nats(
    tmp_path: Path, subscriber: Subscriber, order: str, keys: str
) -> None:
    server = NatsServer(tmp_path / "nats").start()
    place = subscriber.place().decides(moody(random.Random(5), 0.1))
    try:
        with Function("forward", server.url, tmp_path) as forward:
            async with Nats(server.url) as nats:
                lane = await SERVE[order](nats, forward, subscriber=place.uri, policy=POLICY)
                await store_keyed(lane, *(f"{key}{number}" for number in range(30) for key in keys))
                async with leased_for_ever(lane):
                    await place.wait(20)
                    await asyncio.to_thread(server.restart)
                    await until("all is through", lambda: through(place, dict.fromkeys(keys, 30)), LONGEST_RUN)
    finally:
        server.kill()
    assert out_of_order(place) == {}


async def test_an_ack_that_nobody_heard_is_not_confirmed(client: Client) -> None:
    """As in the moment in which a server goes down: JetStream has ended, the connection has not."""
    message = Message("s", {}, b"", "$JS.ACK.NOBODY.C.1.1.1.1.0", "NOBODY", "C", 1, 1, 1)
    with pytest.raises(Unavailable):
        await JetStream(client, JetStreamApi(client)).ack(message, timeout=2)
