"""A body that comes in small pieces is held in little more than its own bytes."""

from __future__ import annotations

from typing import Any

from headrace.core.http import request
from headrace.io import web
from tests.support.memory import taken_memory

PIECES = 8000


async def test_a_body_in_small_pieces_takes_little_more_memory_than_is_charged() -> None:
    left, charged = PIECES, 0
    at_the_end = 0

    async def receive() -> dict[str, Any]:
        nonlocal left, at_the_end
        left -= 1
        at_the_end = taken()
        return {"type": "http.request", "body": bytes(2), "more_body": left > 0}

    def charge(size: int) -> None:
        nonlocal charged
        charged += size

    with taken_memory() as taken:
        body = await web.read_body(receive, request("POST", "/", ()), 1024 * 1024, charge)
    assert (body, charged) == (bytes(2 * PIECES), 2 * PIECES)
    assert at_the_end < 2 * charged
