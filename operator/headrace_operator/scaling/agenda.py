"""The consumers to think about now: those that have changed, and those whose time has come.

Of thousands of consumers that is a handful at a time. A process that thought about all of them whenever one changes
would do nothing else. Times are those of `clock.monotonic`. Called by `headrace_operator.scaling.scaler`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from contextlib import suppress

from headrace.io.process import clock

Name = tuple[str, str]
"""Stream and consumer."""


class Agenda:
    """The agenda of one loop; no consumer is on it twice."""

    def __init__(self) -> None:
        # In the order in which they have come, each once.
        self._now: dict[Name, None] = {}
        self._later: dict[Name, float] = {}
        self._moments: list[tuple[float, Name]] = []
        self._filled = asyncio.Event()

    def add(self, names: Iterable[Name]) -> None:
        """Put these consumers on the agenda now."""
        self._now.update(dict.fromkeys(names))
        if self._now:
            self._filled.set()

    def plan(self, name: Name, moment: float | None) -> None:
        """Put it on the agenda at that moment, not at the one planned before; None: when something changes."""
        if moment is None:
            self._later.pop(name, None)
        elif self._later.get(name) != moment:
            self._later[name] = moment
            heapq.heappush(self._moments, (moment, name))
            # A plan that was changed stays in the heap until its time; such plans must not outnumber the valid ones.
            if len(self._moments) > 2 * len(self._later) + 64:
                self._moments = sorted((when, what) for what, when in self._later.items())

    async def take(self) -> list[Name]:
        """Wait until a consumer is due, and take all that are."""
        while True:
            now = clock.monotonic()
            while self._moments and self._moments[0][0] <= now:
                moment, name = heapq.heappop(self._moments)
                if self._later.get(name) == moment:
                    del self._later[name]
                    self._now[name] = None
            if self._now:
                taken, self._now = list(self._now), {}
                self._filled.clear()
                return taken
            with suppress(TimeoutError):
                async with asyncio.timeout(self._moments[0][0] - now if self._moments else None):
                    await self._filled.wait()
