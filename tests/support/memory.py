"""The memory that a piece of work leaves behind."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def taken_memory() -> Iterator[Callable[[], int]]:
    """Gives a function that says, afterwards too, how many bytes Python has taken since, and not given back."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    after: list[int] = []

    def taken() -> int:
        return (after[0] if after else tracemalloc.get_traced_memory()[0]) - before

    try:
        yield taken
        after.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
