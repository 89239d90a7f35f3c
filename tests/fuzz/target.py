"""A target of the fuzzer, and the promises that every input is held to.

Knows the invariants that all targets share: only documented errors, bounded memory, bounded time. What each reader
promises beside that is its target's own `hold`.
"""

from __future__ import annotations

import signal
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy

# What an input may take whatever its size: tables of parsers, tracebacks, caches that fill.
FREE_BYTES = 512 * 1024
FREE_SECONDS = 0.05
# CPU per byte of input, measured under tracemalloc on a slow core where 0.2 is usual; quadratic code needs more than
# this from a few kilobytes on.
SECONDS_PER_BYTE = 3e-6
# Of CPU, after which an input is given up.
HOPELESS_SECONDS = 10.0
# Errors go back to senders and into logs. An event's 32 faults have some 200 characters each.
LONGEST_ERROR = 16 * 1024


class TooSlow(AssertionError):
    """An input took more time than its size allows. It is not shrunk: that would take as long again for each try."""


@dataclass(frozen=True, slots=True)
class Target:
    """One reader of what strangers write.

    Attributes:
        inputs: what it is fed; plain values, so that the `repr` of one is a test case.
        good: inputs that it must accept.
        read: the code that is tried; this is what is measured.
        hold: raises AssertionError unless what was read is right.
        errors: what `read` may raise.
        memory: bytes that may be held at once per byte of input.
        seconds: CPU per byte of input.
    """

    name: str
    inputs: SearchStrategy[Any]
    good: tuple[Any, ...]
    read: Callable[[Any], Any]
    hold: Callable[[Any, Any], None]
    errors: tuple[type[Exception], ...]
    memory: int = 60
    seconds: float = SECONDS_PER_BYTE


def check(target: Target, given: Any, *, timed: bool = True) -> bool:
    """Hold one input to everything; is it accepted?

    Raises:
        AssertionError: it is not what was promised. Or whatever else the code raises that it may not.
    """
    accepted, result, peak, seconds = _measured(target, given, timed=timed)
    size = size_of(given)
    most, longest = FREE_BYTES + target.memory * size, FREE_SECONDS + target.seconds * size
    # The first time, something may be imported or remembered, or the core be taken away: again, then.
    for _ in range(2):
        # Not what is hopeless: it may take minutes.
        if peak > most or (timed and longest < seconds < 10 * longest):
            _, _, again, quicker = _measured(target, given, timed=timed)
            peak, seconds = min(peak, again), min(seconds, quicker)
    assert peak <= most, f"{peak} bytes held for an input of {size}; at most {most} were to be expected"
    if timed and seconds > longest:
        raise TooSlow(f"{seconds:.3f} s of CPU for an input of {size} bytes; at most {longest:.3f}")
    if accepted:
        target.hold(given, result)
    return accepted


def size_of(given: Any) -> int:
    """The bytes of an input, its parts included."""
    if isinstance(given, str):
        return len(given.encode("utf-8", "surrogatepass"))
    if isinstance(given, bytes):
        return len(given)
    return 8 + sum(map(size_of, given)) if isinstance(given, tuple) else 8


def _measured(target: Target, given: Any, *, timed: bool) -> tuple[bool, Any, int, float]:
    """Accepted or not, what was read, the peak of memory in bytes, and seconds of this thread's CPU."""
    result: Any = None
    if timed:
        signal.signal(signal.SIGVTALRM, _give_up)
        signal.setitimer(signal.ITIMER_VIRTUAL, HOPELESS_SECONDS)
    tracemalloc.start()
    began = time.thread_time()
    try:
        result = target.read(given)
        accepted, said = True, ""
    except target.errors as error:
        accepted, said = False, str(error)
    finally:
        seconds = time.thread_time() - began
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if timed:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert len(said) <= LONGEST_ERROR, f"an error of {len(said)} characters"
    return accepted, result, peak, seconds


def _give_up(*_: object) -> None:
    raise TooSlow(f"given up after {HOPELESS_SECONDS:.0f} s of CPU")
