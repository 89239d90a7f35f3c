"""Draws lanes by Hypothesis until a time is up, or until both servers part; then it shrinks what made them part."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky

from tests.simulation.differential.commands import Lane, lanes
from tests.simulation.differential.compare import Comparison, Difference

# A difference that comes each time is one; what a busy machine has made of a timer comes once.
TRIES = 3
# So long it shrinks what it has found; then the smallest that there is counts.
SHRINK_SECONDS = 90.0


@dataclass
class Report:
    """What was compared; `flukes` are differences that did not come again."""

    lists: int = 0
    commands: int = 0
    flukes: int = 0

    def __str__(self) -> str:
        return f"{self.lists} lists, {self.commands} commands compared, {self.flukes} differences that came once"


def search(comparison: Comparison, seconds: float, number: int, *, most: int = 10**6, shrink: bool = True) -> Report:
    """Compare for so many seconds, or so many draws.

    Args:
        number: of the seed.

    Raises:
        Difference: the servers part, and do so again.
    """
    report, until, found = Report(), time.monotonic() + seconds, list[Difference]()

    @seed(number)
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(lanes())
    def same(drawn: list[Lane]) -> None:
        if time.monotonic() > until + (SHRINK_SECONDS if found else 0.0):
            raise _Over
        before, difference = comparison.steps, Difference([], 0, 1)
        for attempt in range(TRIES):
            try:
                asyncio.run(comparison.run(drawn))
            except Difference as error:
                difference = error
                continue
            report.lists += len(drawn)
            report.commands += comparison.steps - before
            report.flukes += attempt
            return
        found.append(difference)
        raise difference

    with contextlib.suppress(_Over, Flaky, Difference):
        same()
    if found:
        raise found[-1]
    return report


class _Over(Exception):
    """The time is up."""
