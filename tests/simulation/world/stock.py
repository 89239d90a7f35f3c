"""What is alive and what is counted, host by host: before the first event, now and then, and at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace.core import metric_families as families
from headrace.core.delivery import byte_pool
from headrace.core.metrics import Distribution, FamilyKind
from tests.simulation.model.watch import DELIVERY, Seen
from tests.simulation.world.functions import FunctionProgram
from tests.simulation.world.operators import OperatorProgram
from tests.simulation.world.world import MOST_LEASES, OPERATOR, PROCESS_BYTES, World

IN_HAND = (families.WAITING_BYTES, families.IN_FLIGHT, families.IN_FLIGHT_BYTES)
# Each lease may ask for so much beside what all together may have.
MOST_IN_HAND = PROCESS_BYTES + MOST_LEASES * byte_pool.LEAST
# A pass asks one question after the other, and each may take a passage's longest.
LOOKS, LOOK_SECONDS = 20, 0.7


class Stock:
    """It looks at the product's own numbers; of a process that has gone it forgets them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ledger = world.ledger
        self._before: dict[Any, Mapping[Any, float]] = {}

    def baseline(self) -> None:
        """No event has come yet."""
        found = self._alive()
        for name in self._world.programs:
            # The inbox for answers is opened with the first question, and stays.
            subscriptions = f"subscriptions of {name}"
            found[subscriptions] = max(1, found.get(subscriptions, 0))
        self._ledger.baseline = found

    def look(self) -> None:
        """Compare counters with those of the look before."""
        for name, program in self._world.programs.items():
            if not isinstance(program, FunctionProgram):
                continue
            now, before = _counters(program), self._before.get(program, {})
            for key, value in before.items():
                if now.get(key, 0.0) < value:
                    self._ledger.decreased.append(f"{name} {key}: {value:g}, then {now.get(key, 0.0):g}")
            self._before[program] = now

    def acted(self, seen: Seen, host: str) -> None:
        """The server has acted upon a frame: what is in whose hands now?"""
        if seen.verb != DELIVERY:
            return
        program, most = self._world.programs.get(host), self._ledger.most
        if isinstance(program, FunctionProgram):
            name = f"bytes in hand of {host}"
            most[name] = max(most.get(name, 0), program.bytes_in_hand)
            self._ledger.limits[name] = MOST_IN_HAND
        stream, _, consumer = seen.about.partition("/")
        found = self._world.model.streams[stream].consumers[consumer]
        name = f"ack window of {self._world.subscription(consumer)}"
        most[name] = max(most.get(name, 0), len(found.pending))
        self._ledger.limits[name] = int(found.config.get("max_ack_pending") or len(found.pending))

    async def take(self) -> None:
        """Nothing is left to do. What is alive only at one look of several has a pass or a sweep to do."""
        world, ledger = self._world, self._ledger
        looks = []
        for _ in range(LOOKS):
            await asyncio.sleep(LOOK_SECONDS)
            looks.append(self._alive())
            if all(count <= ledger.baseline.get(name, 0) for name, count in looks[-1].items()):
                break
        if ledger.baseline:
            ledger.at_rest = {name: min(look.get(name, 0) for look in looks) for name in looks[0]}
        self.look()
        operator = world.programs.get(OPERATOR)
        if isinstance(operator, OperatorProgram) and operator.served is not None:
            for row in operator.served.scaler.rows():
                ledger.counted[f"{row['channel']}/{row['subscription']}"] = row["events"]
        for channel in world.channels.channels:
            conditions = (channel.get("status") or {}).get("conditions") or ()
            bad = {one["type"]: one.get("reason", "") for one in conditions if one["status"] == "False"}
            ledger.conditions[channel["metadata"]["name"]] = bad

    def _alive(self) -> dict[str, int]:
        found = {}
        for name in self._world.programs:
            process = self._world.hosts[name].process
            if process is not None:
                found[f"tasks of {name}"] = sum(not task.done() for task in process.tasks)
        for name, program in self._world.programs.items():
            if isinstance(program, FunctionProgram):
                snapshot = program.app.snapshot()
                for family in IN_HAND:
                    for value in snapshot.get(family.name, {}).values():
                        found[f"{family.name} of {name}"] = int(value)
        for connection in self._world.model.connections:
            host = self._world.network.at(connection.peer[0]).name
            if host in self._world.programs:
                name = f"subscriptions of {host}"
                found[name] = found.get(name, 0) + len(connection.subscriptions)
        return found


def _counters(program: FunctionProgram) -> dict[Any, float]:
    found: dict[Any, float] = {}
    for name, series in program.app.snapshot().items():
        if families.BY_NAME[name].kind is FamilyKind.GAUGE:
            continue
        for labels, value in series.items():
            found[name, labels] = sum(value.counts) if isinstance(value, Distribution) else value
    return found
