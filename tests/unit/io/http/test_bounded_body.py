"""An answer that comes in small pieces is held in little more than its own bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from headrace.io.http import bounded_body
from tests.support.memory import taken_memory

PIECES = 8000


async def test_an_answer_in_small_pieces_takes_little_more_memory_than_its_bytes() -> None:
    at_the_end = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal at_the_end
        for _ in range(PIECES):
            at_the_end = taken()
            yield bytes(2)

    answer: Any = SimpleNamespace(content=SimpleNamespace(iter_any=pieces))
    with taken_memory() as taken:
        body = await bounded_body.body_of(answer, 2 * PIECES)
    assert body == bytes(2 * PIECES)
    assert at_the_end < 2 * len(body)
