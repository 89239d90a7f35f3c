"""nats-server's disk loses its power, and with it what was not synced: by `sync_interval`, alone and in a cluster."""

from __future__ import annotations

import asyncio
import functools
from contextlib import suppress
from typing import cast

from tests.faults.bench import ASK_AGAIN, AWAY, Bench
from tests.faults.cell import cell
from tests.faults.cells_nats import leader
from tests.faults.lane import Lane
from tests.faults.ledger import taken
from tests.faults.powered import PoweredServer, alone, three
from tests.faults.sink import Arrival, Say, http
from tests.support.disk.lossy_disk import not_here
from tests.support.disk.lossy_tree import Kept
from tests.support.nats.nats_server import NatsServer

power = functools.partial(cell, phase="both", lacks=not_here)
RATE, EVENTS, CUTS = 200.0, 700, 2
# Of so many events one is never taken by its subscriber: it is tried again by its stage record, and parked.
REFUSED = 10
LOST_ACKS = "what was in the subscriber's hands, or acked just before: acks are written later than they are taken"
FORGOTTEN = "everything before: the consumer's position is lost with the rest"


async def both(bench: Bench, kept: Kept, chosen: str = "all", *, forgets: bool = True) -> Lane:
    """Producers send, a scaler drains, a tenth is parked, and all the while power fails.

    Args:
        chosen: the nodes that it fails, at once: `all`, or the `leader` of the stream.
        forgets: may everything come twice that came before?
    """
    lane = await bench.lane(policy={"retry": 1})
    lane.subscriber.decide = _decide
    await bench.start_scaler()
    for node in _all(bench):
        node.sync()

    async def strike() -> None:
        nodes = _all(bench) if chosen == "all" else await _leader(bench, lane)
        hit = bench.strike(bench.scaled(EVENTS) if forgets else bench.max_in_flight + int(RATE))
        hit.since = 0.0 if forgets else hit.since
        for node in nodes:
            node.lose_power(bench.rng, kept)
        for node in nodes:
            await asyncio.to_thread(node.start)
        hit.until = asyncio.get_running_loop().time()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane, try_seconds=6.0).send(bench.ids(EVENTS), rate=RATE))
        tasks.create_task(bench.at_random(bench.scaled(CUTS), EVENTS / RATE * bench.size, strike))
    return lane


def _decide(arrival: Arrival) -> Say:
    refused = int(arrival.id.removeprefix("e")) % REFUSED == 0
    return Say(http(503), takes=False) if refused else Say(delay=0.01)


def _all(bench: Bench) -> list[PoweredServer]:
    return cast("list[PoweredServer]", [bench.server] if isinstance(bench.server, NatsServer) else bench.server.nodes)


async def _leader(bench: Bench, lane: Lane) -> list[PoweredServer]:
    """The leader of the stream, once there is one again."""
    while True:
        with suppress(*AWAY, KeyError):
            return [cast("PoweredServer", await leader(bench, lane))]
        await asyncio.sleep(ASK_AGAIN)


async def account_lost(bench: Bench, lane: Lane) -> None:
    """Write down what power took: events that are stored no more, and those that the consumer's position passes by."""
    await bench.quiet()
    prefix = f"{lane.channel.namespace}.{lane.channel.name}._knative_aside.parked."
    parked = {one.headers["ce-id"] for one in await bench.stored(lane.channel.aside) if one.subject.startswith(prefix)}
    lost = lane.sent.accepted - set(taken(lane.arrivals)) - parked
    passed = lost & {one.headers["ce-id"] for one in await bench.stored(lane.channel.stream)}
    bench.row.notes.append(f"{len(lost - passed)} events are stored no more, {len(passed)} are, and reach nobody")
    bench.row.discarded += len(lost)


@power(
    "power-always",
    "one server with `sync_interval: always` loses power, twice",
    duplicates=LOST_ACKS,
    server=alone("always"),
)
async def power_always(bench: Bench) -> None:
    await both(bench, Kept.SOME, forgets=False)


@power("power-default", "one server with the default loses power, twice", duplicates=FORGOTTEN, server=alone())
async def power_default(bench: Bench) -> None:
    await account_lost(bench, await both(bench, Kept.NOTHING))
    if not bench.row.discarded:
        bench.row.notes.append("FAILED: nothing was lost: this disk proves nothing")


@power(
    "power-three-always",
    "all of three servers with `sync_interval: always` lose power, twice",
    duplicates=LOST_ACKS,
    server=three("always"),
)
async def power_three_always(bench: Bench) -> None:
    await both(bench, Kept.SOME, forgets=False)


@power(
    "power-three-default",
    "all of three servers with the default lose power, twice",
    duplicates=FORGOTTEN,
    server=three(),
    short=False,
)
async def power_three_default(bench: Bench) -> None:
    await account_lost(bench, await both(bench, Kept.SOME))


@power(
    "power-leader-default",
    "the stream's leader of three servers with the default loses power, twice",
    duplicates=LOST_ACKS,
    server=three(),
    short=False,
)
async def power_leader_default(bench: Bench) -> None:
    await both(bench, Kept.NOTHING, "leader", forgets=False)
