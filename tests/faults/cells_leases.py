"""Several leases on one consumer, several `forward`s, leases that are told to end, and clients that go away."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from headrace.core.delivery.lease import LeaseAnswer
from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_subscriber import expect
from tests.faults.lane import Lane
from tests.faults.sink import Say


async def side_by_side(bench: Bench, leases: int) -> None:
    lane = await bench.lane()
    await bench.send(lane, 400)
    lane.subscriber.decide = lambda _: Say(delay=bench.rng.uniform(0.0, 0.05))
    client = bench.client_of_leases()
    answers = await asyncio.gather(*(client.open(bench.turn().url, bench.lease(lane)) for _ in range(leases)))
    delivered = sum(answer.counts["delivered"] for answer in answers)
    expect(bench, "delivered, say the leases", delivered, len(lane.sent.accepted))
    bench.row.notes.append(f"leases that delivered: {sum(answer.moved > 0 for answer in answers)} of {leases}")


@cell("two-leases", "two leases on one consumer", "draining")
async def two_leases(bench: Bench) -> None:
    await side_by_side(bench, 2)


@cell("ten-leases", "ten leases on one consumer", "draining")
async def ten_leases(bench: Bench) -> None:
    await side_by_side(bench, 10)


@cell("two-forwards", "two forward processes, four leases", "draining")
async def two_forwards(bench: Bench) -> None:
    await bench.second_forward()
    await side_by_side(bench, 4)


@cell("lease-client-gone", "whoever opened a lease goes away, three times", "draining")
async def client_gone(bench: Bench) -> None:
    lane = await bench.lane()
    await bench.send(lane, 200)
    lane.subscriber.decide = lambda _: Say(delay=bench.rng.uniform(0.05, 0.2))
    client = bench.client_of_leases()
    for _ in range(3):
        lease = asyncio.create_task(client.open(bench.forward.url, bench.lease(lane)))
        await asyncio.sleep(bench.rng.uniform(0.3, 0.6))
        lease.cancel()
        with suppress(asyncio.CancelledError):
            await lease
    await bench.start_scaler()


async def backlog(bench: Bench, delay: float, count: int = 400) -> tuple[Lane, asyncio.Task[LeaseAnswer]]:
    """A lease on the first `forward` with its window full, and more behind it."""
    lane = await bench.lane()
    await bench.send(lane, count)
    lane.subscriber.decide = lambda _: Say(delay=delay)
    await bench.second_forward()
    client = bench.client_of_leases()
    lease = asyncio.create_task(client.open(bench.forward.url, bench.lease(lane)))
    await bench.until(lambda: len(lane.arrivals) >= 2 * bench.max_in_flight, 20, "the window was full")
    return lane, lease


def first_by_the_successor(bench: Bench, lane: Lane, before: set[str], since: float) -> float:
    """Seconds from the signal to the first arrival of an event that the dead one did not hold."""
    return min((a.at for a in lane.arrivals if a.id not in before and a.at > since), default=float("inf")) - since


@cell("back-after-sigterm", "SIGTERM with a full window and a backlog; a scaler and a second forward", "draining")
async def after_sigterm(bench: Bench) -> None:
    """Design 10.4: the successor delivers within 1 s, and nothing comes twice."""
    lane, lease = await backlog(bench, 0.3)
    held = {arrival.id for arrival in lane.arrivals}
    since = time.monotonic()
    bench.forward.terminate()
    client = bench.client_of_leases()
    successor = asyncio.create_task(client.open(bench.forwards[1].url, bench.lease(lane)))
    await asyncio.gather(lease, successor)
    seconds = first_by_the_successor(bench, lane, held, since)
    bench.measure("successor's first delivery after SIGTERM", seconds, 1.0)
    expect(bench, "exit status", await asyncio.to_thread(bench.forward.wait, 30), 0)
    bench.forwards.pop(0)
    await bench.start_scaler()


@cell("back-after-sigterm-slow", "the same with a subscriber that takes 4 s, leases by the scaler alone", "draining")
async def after_sigterm_slow(bench: Bench) -> None:
    """The lease that ends says so at once, and the scaler opens the next one beside it."""
    lane = await bench.lane()
    await bench.send(lane, 60)
    lane.subscriber.decide = lambda _: Say(delay=4.0)
    await bench.second_forward()
    await bench.start_scaler()
    await bench.until(lambda: len(lane.arrivals) >= bench.max_in_flight, 20, "the window was full")
    held = {arrival.id for arrival in lane.arrivals}
    since = time.monotonic()
    busy = bench.forwards.pop(bench.forwards.index(bench.last))
    busy.terminate()
    await bench.quiet()
    seconds = first_by_the_successor(bench, lane, held, since)
    bench.measure("successor's first delivery after SIGTERM", seconds, 1.0)
    bench.others.append(busy)


@cell(
    "back-after-sigkill",
    "SIGKILL with a full window and a backlog; a scaler and a second forward",
    "draining",
    "what was in the subscriber's hands",
)
async def after_sigkill(bench: Bench) -> None:
    """Design 10.4: everything that it held is delivered again within 10 s."""
    lane, lease = await backlog(bench, 0.3)
    bench.forwards.reverse()
    bench.strike()
    since = time.monotonic()
    before = {arrival.id for arrival in lane.arrivals}
    unsettled = {arrival.id for arrival in lane.arrivals if arrival.answered_at is None}
    bench.forwards[1].shoot()
    dead = bench.forwards.pop()
    await bench.start_scaler()
    with suppress(Exception):
        await lease
    await bench.quiet()
    again = [arrival.at for arrival in lane.arrivals if arrival.id in unsettled and arrival.at > since + 0.2]
    bench.measure("successor's first delivery after SIGKILL", first_by_the_successor(bench, lane, before, since), 1.0)
    bench.measure("all that was in hands, delivered again", max(again, default=float("inf")) - since, 10.0)
    bench.forwards.append(dead)


@cell(
    "back-after-sigkill-alone",
    "SIGKILL with nothing behind the events in hands",
    "draining",
    "what was in the subscriber's hands",
)
async def after_sigkill_alone(bench: Bench) -> None:
    """Nobody says when these are due: the scaler has to look for them."""
    lane = await bench.lane()
    bench.size = 1.0
    await bench.send(lane, bench.max_in_flight)
    lane.subscriber.decide = lambda _: Say(delay=1.0)
    await bench.second_forward()
    bench.forwards.reverse()
    bench.turn()
    await bench.start_scaler()
    await bench.until(lambda: len(lane.arrivals) >= bench.max_in_flight, 20, "all were in hands")
    bench.strike()
    since = time.monotonic()
    busy = bench.forwards.pop(bench.forwards.index(bench.last))
    busy.shoot()
    await bench.quiet()
    again = [arrival.at for arrival in lane.arrivals if arrival.at > since + 0.2]
    bench.measure("all that was in hands, delivered again", max(again, default=float("inf")) - since, 10.0)
    bench.forwards.append(busy)
