"""Runs long calculations on a thread, so that the loop goes on answering meanwhile.

A channel of 3,000 subscribers takes seconds of pure calculation; on the loop nobody else would be answered. Given to
`headrace.reconcile` as an effect, and called by the operator.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

MOST_ON_THE_LOOP = 64
"""Things that the loop itself may calculate about: some ten milliseconds. The way to the thread takes 0.1 ms."""

P = ParamSpec("P")
T = TypeVar("T")

# One thread only: more would take turns with it, and the loop would wait for each of them.
_thread = ThreadPoolExecutor(1, thread_name_prefix="calculation")


async def calculate(things: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a pure function.

    Args:
        things: objects that it is about, or kilobytes of text, roughly: with many of them the thread calculates.
    """
    if things <= MOST_ON_THE_LOOP:
        return function(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_thread, partial(_alone, function, *args, **kwargs))


async def in_slices(things: Iterable[T]) -> AsyncIterator[T]:
    """The same things, for a loop over many of them; others are served in between."""
    for index, thing in enumerate(things, 1):
        yield thing
        if index % MOST_ON_THE_LOOP == 0:
            await asyncio.sleep(0)


def _alone(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Without the garbage collector: it would stop all threads, again and again, to look through a million new values.

    Values without circles are freed without it.
    """
    if not gc.isenabled():
        return function(*args, **kwargs)
    gc.disable()
    try:
        return function(*args, **kwargs)
    finally:
        gc.enable()
