"""Feeds targets under fresh seeds until their time is up, and says what it found.

Random bytes decide Hypothesis' draws: that is twice as fast as its own choice, and evenly spread. It shrinks the
failures. atheris was looked at and left: it has wheels for Python 3.11 to 3.13, but for Linux on x86-64 only; libFuzzer
ends the process at the first fault and never returns, so that no unit test could hold the runner to its word; its
inputs are bytes, where most of ours are headers and JSON nodes that shrink as such; and llhttp, `re` and `json`, where
most of the work is done, are C that it has not instrumented.
"""

from __future__ import annotations

import math
import random
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis.database import InMemoryExampleDatabase

from tests.fuzz.target import Target, TooSlow, check

# Inputs under one seed. Always as many, since the same seed with another number gives other inputs.
ROUND = 100
SHRINKING_SECONDS = 20.0
# Bytes that are drawn from; what needs more is not tried.
_DRAWN = 1024


@dataclass(slots=True)
class Report:
    """What came of one target; `faults` are ready to be printed."""

    name: str
    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def line(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0
        found = f"{len(self.faults)} faults" if self.faults else "no fault"
        return f"{self.name:<16} {self.inputs:>8} inputs {rate:>7.0f}/s  {self.accepted:>7} accepted  {found}"


def run(target: Target, first_seed: int, more: Callable[[Report], bool], *, timed: bool = True) -> Report:
    """Rounds under `first_seed` and the seeds after it, at least one, while `more` says so and nothing was found."""
    report = Report(target.name)
    began = time.monotonic()
    number = first_seed
    for good in target.good:
        try:
            assert check(target, good, timed=timed), "a good input is refused"
        except Exception as error:  # noqa: BLE001  # whatever the code raised is what the fuzzer is after
            report.faults.append(_told(target, number, error, good))
    while not report.faults and (not report.inputs or more(report)):
        _round(target, number, report, timed=timed)
        report.seconds = time.monotonic() - began
        number += 1
    return report


def until(seconds: float) -> Callable[[Report], bool]:
    return lambda report: report.seconds < seconds


def _round(target: Target, number: int, report: Report, *, timed: bool) -> None:
    latest: dict[str, object] = {}
    last_try = math.inf

    @settings(
        max_examples=ROUND,
        database=InMemoryExampleDatabase(),
        deadline=None,
        phases=(Phase.reuse, Phase.shrink),
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def one(drawn: object) -> None:
        nonlocal last_try
        # What is smaller counts as right once the time is up, so that shrinking comes to its end.
        if time.monotonic() > last_try and repr(drawn) not in map(repr, latest.values()):
            return
        try:
            report.accepted += check(target, drawn, timed=timed)
        except Exception as error:
            last_try = min(last_try, time.monotonic() + SHRINKING_SECONDS)
            latest[_place(error)] = drawn
            raise

    chance = random.Random(number)
    try:
        for _ in range(ROUND):
            report.inputs += 1
            one.hypothesis.fuzz_one_input(chance.randbytes(_DRAWN))
    except Exception as error:  # noqa: BLE001  # as above
        for fault in _shrunk(one, error):
            report.faults.append(_told(target, number, fault, latest.get(_place(fault), "see the traceback")))


def _shrunk(one: Callable[[], None], error: Exception) -> Sequence[BaseException]:
    """The same fault from the smallest input, and others that came up on the way to it."""
    if isinstance(error, TooSlow):
        return (error,)
    try:
        one()
    except BaseExceptionGroup as several:
        return several.exceptions
    except Exception as smallest:  # noqa: BLE001  # as above
        return (smallest,)
    return (error,)


def _place(error: BaseException) -> str:
    """Kind and line of a fault: by these Hypothesis, too, tells one from another."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} {frame.filename}:{frame.lineno}"


def _told(target: Target, number: int, error: BaseException, drawn: object) -> str:
    text = repr(drawn)
    shown = text if len(text) <= 4000 else f"{text[:2000]} … {len(text)} characters … {text[-500:]}"
    return "\n".join(
        (
            f"FAULT in {target.name}, seed {number}: {type(error).__name__}: {str(error)[:500]}",
            "".join(traceback.format_tb(error.__traceback__)[-4:]).rstrip(),
            f"  again:  python -m tests.fuzz --target {target.name} --seed {number} --seconds 0",
            f"  a test: check(TARGETS[{target.name!r}], {shown})",
        )
    )
