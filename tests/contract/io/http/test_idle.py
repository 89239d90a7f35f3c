"""How long each idle connection is kept: as the server says, and never a moment longer."""

from __future__ import annotations

import time

from tests.support.http.raw_server import answering, serving
from tests.support.loop_clock import exactly
from tests.support.waiting import until

WAITING = b"HTTP/1.1 202 Accepted\r\nkeep-alive: timeout=%d\r\ncontent-length: 0\r\n\r\n"


async def test_each_idle_connection_has_its_own_time(client):
    """The server said 2 s and 1 s; 1 s and half a second of that are ours."""
    async with serving(answering(WAITING % 2)) as longer, serving(answering(WAITING % 1)) as shorter:
        await client.post(longer.url)
        await client.post(shorter.url)
        await exactly(0.5, until("the shorter one is closed", lambda: shorter.open == 0))
        # It did not wait for the longer one's time, and did not end it.
        assert longer.open == 1
        await until("the longer one is closed, too", lambda: longer.open == 0)


async def test_an_idle_connection_is_not_used_after_its_time_although_the_event_loop_came_late(client):
    async with serving(answering(WAITING % 1)) as server:
        await client.post(server.url)
        # Nobody could close it meanwhile, and the server may do so in this moment.
        time.sleep(0.6)  # noqa: ASYNC251  # the loop must stand still, as in a frozen process
        await client.post(server.url)
        assert server.connections == 2
