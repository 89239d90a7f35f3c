"""Runs long calculations on a thread, so that the loop goes on answering meanwhile.

A channel of 3,000 subscribers takes seconds of pure calculation; on the loop nobody else would be answered. Given to
`headrace.reconcile` as an effect, and called by the operator.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from headrace.io.process import clock

MOST_ON_THE_LOOP = 64
"""Things that the loop itself may calculate about: some ten milliseconds. The way to the thread takes 0.1 ms."""
LONGEST_TURN = 0.001
"""Seconds for which the thread goes on when the loop wants its turn. By default they are five times as many, and a
small call waits for them each time that it asks NATS."""
LONGEST_UNCOLLECTED = 30.0
"""Seconds without the garbage collector, while one large call follows another without a pause."""
ENOUGH_PIECES = 1_000
DEEPEST = 3
"""Levels to which a value is taken apart: those of a request are its members, kinds, and objects."""

P = ParamSpec("P")
T = TypeVar("T")

# One thread only: more would take turns with it, and the loop would wait for each of them.
_thread = ThreadPoolExecutor(1, "calculation", partial(sys.setswitchinterval, LONGEST_TURN))


async def calculate(things: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a pure function.

    Args:
        things: objects that it is about, or kilobytes of text, roughly: with many of them the thread calculates.
    """
    if things <= MOST_ON_THE_LOOP:
        return function(*args, **kwargs)
    # Not as the result of the executor's future: the thread holds that a moment longer than we, and would free it all.
    results: list[T] = []
    with _collector.put_off():
        await asyncio.get_running_loop().run_in_executor(_thread, lambda: results.append(function(*args, **kwargs)))
    return results.pop()


class Undertaking:
    """The calculations of one call; nobody may use their results after it."""

    def __init__(self) -> None:
        self.results: list[object] = []

    async def calculate(self, things: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `calculate`."""
        result = await calculate(things, function, *args, **kwargs)
        if things > MOST_ON_THE_LOOP:
            self.results.append(result)
        return result


@asynccontextmanager
async def undertaking(things: int) -> AsyncIterator[Undertaking]:
    """For a call whose results are let go at its end bit by bit: to free a million values at once would take long.

    Args:
        things: as in `calculate`, of the whole call.
    """
    undertaken = Undertaking()
    with _collector.put_off() if things > MOST_ON_THE_LOOP else nullcontext():
        try:
            yield undertaken
        finally:
            while undertaken.results:
                pieces = _pieces(undertaken.results.pop())
                async for _ in in_slices(range(len(pieces))):
                    pieces.pop()


async def in_slices(things: Iterable[T]) -> AsyncIterator[T]:
    """The same things, for a loop over many of them; others are served in between."""
    for index, thing in enumerate(things, 1):
        yield thing
        if index % MOST_ON_THE_LOOP == 0:
            await asyncio.sleep(0)


def _pieces(value: object) -> list[object]:
    """What a value consists of, in many pieces: only they keep its parts then."""
    pieces, levels = [value], 0
    while levels < DEEPEST and len(pieces) < ENOUGH_PIECES:
        pieces, levels = [part for piece in pieces for part in _parts(piece)], levels + 1
    return pieces


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    return (getattr(value, field.name) for field in fields(value)) if is_dataclass(value) else ()


class _Collector:
    """The garbage collector, which stops all threads, again and again, to look through a million new values.

    Values without circles are freed without it.
    """

    def __init__(self) -> None:
        self._users = 0
        self._off_since: float | None = None

    @contextmanager
    def put_off(self) -> Iterator[None]:
        if self._users == 0 and gc.isenabled():
            gc.disable()
            self._off_since = clock.monotonic()
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            off = self._off_since
            if off is not None and (self._users == 0 or clock.monotonic() - off > LONGEST_UNCOLLECTED):
                gc.enable()
                self._off_since = None


_collector = _Collector()
