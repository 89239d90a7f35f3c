"""Machines that lie: clocks that are off by ten minutes either way, and disks that stand still"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_nats import cluster
from tests.faults.partitions import clocks, disks
from tests.faults.partitions.cells_cables import ACK_WAIT, LEASES, UNSURE, Strike, flood, leader_of
from tests.faults.partitions.disks import ClusterOnDisks, Disk
from tests.faults.processes import Cluster

OFF = 600
SPAN = 4.0
# JetStream notes by the wall clock when a retry is due: one that was noted by a clock ten minutes ahead comes as much
# later, twenty minutes if the clock is then set ten behind.
HELD_BACK = 2 * OFF + 60.0


def of_clock(
    name: str, fault: str, *, short: bool = False, may: str = "none", bound: float = 45.0
) -> Callable[[Strike], Strike]:
    """Register a cell whose strike sets a clock off, and right again."""

    def register(strike: Strike) -> Strike:
        async def run(bench: Bench) -> None:
            await flood(bench, strike, bound)

        cell(name, fault, "both", may, short=short, server=Cluster, bound=bound, lacks=clocks.why_not)(run)
        return strike

    return register


async def off(pids: Callable[[], list[int]], between: Callable[[], Awaitable[None]] | None = None) -> None:
    """Ten minutes ahead for a while, as many behind, and right again."""
    for seconds in (OFF, -OFF, 0):
        for pid in pids():
            await asyncio.to_thread(clocks.set_off, pid, seconds)
        if between is not None:
            await between()
        await asyncio.sleep(SPAN)


def scaler(bench: Bench) -> int:
    assert bench.scaler is not None
    return bench.scaler.pid


@of_clock("clock-forward", "the clock of both forwards jumps 10 minutes ahead, then is 10 minutes behind, then right")
async def clock_forward(bench: Bench) -> None:
    await off(lambda: [host.pid for host in bench.forwards])


@of_clock("clock-receive", "receive's clock jumps 10 minutes ahead, then is 10 minutes behind, then right")
async def clock_receive(bench: Bench) -> None:
    await off(lambda: [bench.receive.pid])


@of_clock("clock-operator", "the scaler's clock jumps 10 minutes ahead, then is 10 minutes behind, then right")
async def clock_operator(bench: Bench) -> None:
    await off(lambda: [scaler(bench)])


@of_clock(
    "clock-each-its-own", "receive, a forward and the scaler, each off in turn while the others are right", short=True
)
async def clock_each(bench: Bench) -> None:
    for pid in (bench.receive.pid, bench.forward.pid, scaler(bench)):
        for seconds in (OFF, -OFF, 0):
            await asyncio.to_thread(clocks.set_off, pid, seconds)
            await asyncio.sleep(SPAN / 4)


OVER_AT_ONCE = (
    "what was in hands when the clock that its consumer's leader reads went ahead: its ack wait is over at once"
)


@of_clock("clock-nats", "so does the clock of the nats-server that leads the stream", may=OVER_AT_ONCE, bound=HELD_BACK)
async def clock_nats(bench: Bench) -> None:
    leader, _ = await leader_of(bench)
    hit = bench.strike(bench.max_in_flight * LEASES * 3)
    await off(lambda: [cluster(bench).node(leader).pid])
    hit.until = time.monotonic()


@of_clock(
    "clock-nats-hands-over",
    "so does the clock of one nats-server, and at each jump the leaders of stream and consumer step down",
    may=OVER_AT_ONCE,
    bound=HELD_BACK,
)
async def clock_hands_over(bench: Bench) -> None:
    leader, _ = await leader_of(bench)
    hit = bench.strike(bench.max_in_flight * LEASES * 3)

    async def step_down() -> None:
        lane = bench.lanes[0]
        await bench.nats.call(f"STREAM.LEADER.STEPDOWN.{lane.channel.stream}")
        await bench.nats.call(f"CONSUMER.LEADER.STEPDOWN.{lane.channel.stream}.{lane.consumer}")

    await off(lambda: [cluster(bench).node(leader).pid], step_down)
    hit.until = time.monotonic()


def of_disk(name: str, fault: str, *, short: bool = False) -> Callable[[Strike], Strike]:
    def register(strike: Strike) -> Strike:
        async def run(bench: Bench) -> None:
            await flood(bench, strike)

        cell(name, fault, "both", UNSURE, short=short, server=ClusterOnDisks, lacks=disks.why_not)(run)
        return strike

    return register


async def frozen(bench: Bench, seconds: float, some: list[Disk]) -> None:
    hit = bench.strike(bench.max_in_flight * LEASES * (2 + int(seconds / ACK_WAIT)))
    for disk in some:
        await asyncio.to_thread(disk.freeze)
    try:
        await asyncio.sleep(seconds)
    finally:
        for disk in some:
            await asyncio.to_thread(disk.thaw)
    hit.until = time.monotonic() + ACK_WAIT


async def disk_of_leader(bench: Bench) -> list[Disk]:
    assert isinstance(bench.server, ClusterOnDisks)
    leader, _ = await leader_of(bench)
    return [bench.server.disks[Cluster.NAMES.index(leader)]]


def all_disks(bench: Bench) -> list[Disk]:
    assert isinstance(bench.server, ClusterOnDisks)
    return bench.server.disks


@of_disk("disk-of-leader-5", "the disk under the leader stands still for 5 s", short=True)
async def leader_5(bench: Bench) -> None:
    await frozen(bench, 5, await disk_of_leader(bench))


@of_disk("disk-of-leader-30", "the disk under the leader stands still for 30 s")
async def leader_30(bench: Bench) -> None:
    await frozen(bench, 30, await disk_of_leader(bench))


@of_disk("disks-of-all-5", "the disks under all three nats-servers stand still for 5 s")
async def all_5(bench: Bench) -> None:
    await frozen(bench, 5, all_disks(bench))


@of_disk("disks-of-all-30", "the disks under all three nats-servers stand still for 30 s")
async def all_30(bench: Bench) -> None:
    await frozen(bench, 30, all_disks(bench))
