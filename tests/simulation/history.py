"""One history: from its plan to what happened in it.

A plan gives the same history each time, in whichever process: the same passages of the same bytes at the same times,
which `Outcome.hash` stands for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.simulation import environment
from tests.simulation.ledger import FOR_EVER, Ledger
from tests.simulation.loop import SimulatedLoop
from tests.simulation.model.watch import Seen
from tests.simulation.plan import Plan
from tests.simulation.strikes import Strikes
from tests.simulation.world.spark import SparkRead
from tests.simulation.world.stock import Stock
from tests.simulation.world.witness import Witness
from tests.simulation.world.world import World

# Programs that have just begun still do something.
REST_SECONDS = 2.0
# Longer than a lease and the scaler's sweeps.
QUIET_SECONDS = 35.0
LOOK_SECONDS = 1.0
READ_BY_SPARK, STRUCK_EARLY = 4, 5
SPARK_SECONDS = 2.0
OVERDUE = "events of an earlier lease did not come back, order is not sure"


@dataclass(slots=True)
class Outcome:
    """What a plan has led to.

    Attributes:
        hash: of all passages between hosts.
        seconds: how long it took, by its own clock.
        broken: the simulation itself has failed, in words; empty for a history that came to its end.
    """

    plan: Plan
    ledger: Ledger
    hash: str = ""
    seconds: float = 0.0
    callbacks: int = 0
    passages: int = 0
    broken: str = ""


def run(plan: Plan) -> Outcome:
    """Run a history; `tests.simulation.environment.prepare` comes before the first one of a process."""
    loop = SimulatedLoop(plan.seed, shuffle=plan.shuffle)
    ledger = Ledger()
    outcome = Outcome(plan, ledger)
    world = World(plan, loop, ledger)
    stock = Stock(world)
    witness = Witness(plan, ledger, world.model, world.subscription, loop.time, environment.EPOCH)

    def acted(seen: Seen, host: str) -> None:
        witness.acted(seen, host)
        stock.acted(seen, host)

    strikes = Strikes(world, acted)
    world.model.frames = strikes.watch

    def note(level: str, words: str, values: dict[str, Any]) -> None:
        if level == "error":
            ledger.troubles.append(f"{loop.now:.3f} {words} {values}")
        elif words == OVERDUE:
            ledger.overdue.append((loop.now, world.subscription(values["consumer"])))

    def trouble(context: dict[str, Any]) -> None:
        note("error", str(context.get("message")), {"error": repr(context.get("exception"))})

    loop.on_trouble = trouble
    with environment.of(loop, plan.seed, world.variables(), note):
        try:
            loop.run(_course(world, strikes, witness, stock))
        except Exception as error:  # noqa: BLE001  # whatever it is, it belongs to this history
            outcome.broken = f"{type(error).__name__}: {error}"
        finally:
            outcome.hash, outcome.seconds = world.network.hash, loop.now
            outcome.callbacks, outcome.passages = loop.callbacks, world.network.passages
            for host in world.hosts.values():
                if host.process is not None:
                    loop.bury(host.process)
            loop.close()
    return outcome


async def _course(world: World, strikes: Strikes, witness: Witness, stock: Stock) -> None:
    """Start, events, and the wait until nothing is left to do."""
    ledger, plan = world.ledger, world.plan
    # Some histories are struck while channels are made.
    early = plan.seed % STRUCK_EARLY == 0
    if early:
        strikes.begin()
    producers = await world.begin()
    if not early:
        await asyncio.sleep(REST_SECONDS)
        stock.baseline()
        strikes.begin()
    began = world.loop.now
    # Some histories are read by Spark, too: in their midst, and at their end.
    reads = [SparkRead(world, one) for one in plan.channels[:1] if plan.seed % READ_BY_SPARK == 0]
    for read in reads:
        world.loop.call_later(SPARK_SECONDS, read.begin)
    producing = world.network.boot(world.hosts["producer"], producers.run()).program
    assert producing is not None
    await asyncio.wait([producing])
    last, patience = began + max((event.at for event in plan.events), default=0.0), plan.patience
    while True:
        while not world.settled() or world.loop.now < strikes.over_at:
            if world.loop.now > max(last, ledger.healed_at) + patience:
                break
            await asyncio.sleep(LOOK_SECONDS)
        stock.look()
        ledger.quiet_at = world.loop.now if world.settled() else FOR_EVER
        quiet = world.loop.now
        await asyncio.sleep(QUIET_SECONDS)
        # What strikes at a frame may wait until nothing else is left to do.
        over = world.settled() and ledger.healed_at <= quiet
        if over or world.loop.now > max(last, ledger.healed_at) + patience:
            break
    for read in [SparkRead(world, one) for one in plan.channels if reads]:
        read.begin()
        reads.append(read)
    while not all(read.done for read in reads):  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(LOOK_SECONDS)
    ledger.troubles += [read.trouble for read in reads if read.trouble]
    ledger.troubles += [f"Spark could not read: {read.failed}" for read in reads[1:] if read.failed]
    await stock.take()
    witness.take_stock()
    ledger.last_at = world.loop.now
