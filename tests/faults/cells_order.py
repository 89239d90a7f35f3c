"""Order while `forward` dies: no event comes after a later one of its key, retries or not.

Later is what lies behind it in the stream. What came before may come again, as everywhere (ADR 015).
"""

from __future__ import annotations

import asyncio
from typing import Any

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_forward import IN_HANDS, die_in, revived
from tests.faults.cells_subscriber import expect
from tests.faults.lane import Lane
from tests.faults.sink import Arrival, Say, http
from tests.support.functions.ordering import BY_KEY, ORDERED

KEYS = "abcdefg"
REFUSED = 0.2
# Each key's events are sent one after the other, so slowly that none overtakes another on its way in.
RATE = 20.0
POLICY: dict[str, object] = {"retry": 8, "backoffPolicy": "linear", "backoffDelay": "PT0.1S"}


async def in_order(bench: Bench, keys: str, count: int, **subscriber: Any) -> None:
    """Every key by a producer of its own, a subscriber that refuses a part, `forward` killed in mid-delivery."""
    lane = await bench.lane(policy=POLICY, **subscriber)

    def decide(_: Arrival) -> Say:
        refused = bench.rng.random() < REFUSED
        return Say(http(503), takes=False) if refused else Say(delay=bench.rng.uniform(0.0, 0.01))

    lane.subscriber.decide = decide
    die_in(bench, lane.subscriber)
    keeper = asyncio.create_task(revived(bench, bench.forward))
    await bench.start_scaler()
    ids = {key: bench.ids(count // len(keys), f"{key}-") for key in keys}
    sent = (bench.producer(lane).send(ids[key], rate=RATE, headers={"ce-partitionkey": key}) for key in keys)
    await asyncio.gather(*sent)
    await bench.quiet(90)
    keeper.cancel()
    await asyncio.wait([keeper])
    expect(bench, "out of order", await late(bench, lane), [])


async def late(bench: Bench, lane: Lane) -> list[str]:
    """The events that came after a later one of their key."""
    place = {one.headers["ce-id"]: one.sequence for one in await bench.stored(lane.channel.stream)}
    highest: dict[str, int] = {}
    found = []
    for arrival in lane.arrivals:
        key = arrival.id.partition("-")[0]
        if place[arrival.id] < highest.get(key, 0):
            found.append(arrival.id)
        highest[key] = max(highest.get(key, 0), place[arrival.id])
    return found


@cell("ordered-forward-killed", "SIGKILL of forward, three times; ordered, a fifth refused at first", "both", IN_HANDS)
async def ordered(bench: Bench) -> None:
    await in_order(bench, KEYS[:1], 60, consumer=ORDERED, deliveryOrder="ordered")


@cell("by-key-forward-killed", "SIGKILL of forward, three times; by key, a fifth refused at first", "both", IN_HANDS)
async def by_key(bench: Bench) -> None:
    await in_order(bench, KEYS, 150, consumer=BY_KEY, deliveryOrder="by-key", orderKey="partitionkey")
