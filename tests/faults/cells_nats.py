"""nats-server dies, freezes, restarts, alone and in a cluster; the scaler is away, and wake hints are lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_receive import RATE
from tests.faults.lane import Lane
from tests.faults.processes import Cluster, own_port
from tests.faults.sink import Arrival, Say, http
from tests.support.nats.nats_server import NatsServer

# A server that is killed forgets acks that it has taken, even confirmed ones: it writes a consumer's state at times.
FORGOTTEN_SECONDS = 1.0
LOST_ACKS = "what was in the subscriber's hands: its ack may have been lost with the connection"


async def both(bench: Bench, strike: Callable[[], Awaitable[None]], times: int, seconds: float = 5.0) -> Lane:
    """Producers send, a scaler drains into a subscriber that takes 50 ms, and something is struck."""
    lane = await bench.lane(policy={"retry": 10})
    lane.subscriber.decide = lambda _: Say(delay=0.05)
    await bench.start_scaler()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane, try_seconds=6.0).send(bench.ids(int(RATE * seconds)), rate=RATE))
        tasks.create_task(bench.at_random(times, seconds * bench.size * 0.8, strike))
    return lane


def alone(bench: Bench) -> NatsServer:
    assert isinstance(bench.server, NatsServer)
    return bench.server


@cell("nats-killed", "SIGKILL of nats-server (file storage), back after 1 s, twice", "both", LOST_ACKS)
async def nats_killed(bench: Bench) -> None:
    async def strike() -> None:
        hit = bench.strike(bench.max_in_flight + int(RATE * FORGOTTEN_SECONDS))
        alone(bench).kill()
        await asyncio.sleep(1)
        await asyncio.to_thread(alone(bench).start)
        hit.until = asyncio.get_running_loop().time()

    await both(bench, strike, 2)


@cell("nats-restarted", "SIGTERM of nats-server and a new start, twice", "both", LOST_ACKS)
async def nats_restarted(bench: Bench) -> None:
    async def strike() -> None:
        hit = bench.strike()
        await asyncio.to_thread(alone(bench).restart)
        hit.until = asyncio.get_running_loop().time()

    await both(bench, strike, 2)


@cell("nats-frozen", "SIGSTOP of nats-server for 7 s", "both", LOST_ACKS)
async def nats_frozen(bench: Bench) -> None:
    async def strike() -> None:
        hit = bench.strike()
        os.kill(alone(bench).pid, signal.SIGSTOP)
        await asyncio.sleep(7)
        os.kill(alone(bench).pid, signal.SIGCONT)
        hit.until = asyncio.get_running_loop().time()

    await both(bench, strike, 1)


def cluster(bench: Bench) -> Cluster:
    assert isinstance(bench.server, Cluster)
    return bench.server


async def leader(bench: Bench, lane: Lane) -> NatsServer:
    return cluster(bench).node(await bench.leader_of(lane.channel.stream))


@cell(
    "leader-killed",
    "three nats-servers: SIGKILL of the stream's leader, back after 3 s",
    "both",
    LOST_ACKS,
    server=Cluster,
)
async def leader_killed(bench: Bench) -> None:
    async def strike() -> None:
        node = await leader(bench, bench.lanes[0])
        hit = bench.strike()
        node.kill()
        await asyncio.sleep(3)
        await asyncio.to_thread(node.start)
        hit.until = asyncio.get_running_loop().time()

    await both(bench, strike, 1, 6.0)


@cell("two-of-three-killed", "three nats-servers: SIGKILL of two, back after 3 s", "both", LOST_ACKS, server=Cluster)
async def two_killed(bench: Bench) -> None:
    async def strike() -> None:
        first = await leader(bench, bench.lanes[0])
        second = bench.rng.choice([node for node in cluster(bench).nodes if node is not first])
        hit = bench.strike()
        first.kill()
        second.kill()
        await asyncio.sleep(3)
        await asyncio.to_thread(first.start)
        await asyncio.to_thread(second.start)
        hit.until = asyncio.get_running_loop().time() + 2

    await both(bench, strike, 1, 6.0)


@cell("scaler-gone", "the scaler is away for 3 s, twice, its open leases with it", "both")
async def scaler_gone(bench: Bench) -> None:
    async def strike() -> None:
        await bench.stop_scaler()
        await asyncio.sleep(3)
        await bench.start_scaler()

    await both(bench, strike, 2)


def without_hints(directory: Path) -> NatsServer:
    """A server that lets nobody publish a wake hint."""
    return NatsServer(
        directory / "nats",
        port=own_port(),
        config='no_auth_user: "all"\nauthorization { users: [ { user: "all", password: "all", '
        'permissions: { publish: { allow: ">", deny: "headrace.wake.>" } } } ] }',
    )


@cell("hints-lost", "no wake hint arrives, the sweep must find everything", "both", server=without_hints)
async def hints_lost(bench: Bench) -> None:
    lane = await bench.lane()
    await bench.start_scaler()
    for part in range(3):
        await bench.producer(lane).send(bench.ids(30, f"p{part}-"), rate=RATE)
        # Longer than a lease lingers: each part starts from zero.
        await asyncio.sleep(3)


@cell(
    "everything",
    "receive, forward, nats-server and the scaler die in turn; the subscriber refuses a tenth",
    "both",
    LOST_ACKS,
    short=False,
)
async def everything(bench: Bench) -> None:
    lane = await bench.lane(dead=True, policy={"retry": 20, "backoffPolicy": "linear"})
    refused: set[str] = set()

    def decide(arrival: Arrival) -> Say:
        if bench.rng.random() < 0.1 and arrival.id not in refused:
            refused.add(arrival.id)
            return Say(http(503), takes=False)
        return Say(delay=bench.rng.uniform(0.0, 0.1))

    lane.subscriber.decide = decide
    await bench.start_scaler()

    async def nats_dies() -> None:
        alone(bench).kill()
        await asyncio.to_thread(alone(bench).start)

    async def scaler_dies() -> None:
        await bench.stop_scaler()
        await bench.start_scaler()

    async def strike() -> None:
        hit = bench.strike()
        revived = [lambda host=host: asyncio.to_thread(host.revive) for host in (bench.receive, bench.forward)]
        await bench.rng.choice([*revived, nats_dies, scaler_dies])()
        hit.until = asyncio.get_running_loop().time()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane, try_seconds=6.0).send(bench.ids(600), rate=60))
        tasks.create_task(bench.at_random(bench.scaled(6), 8.0 * bench.size, strike))
