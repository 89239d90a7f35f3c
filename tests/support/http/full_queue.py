"""An address to which a connection stays under way for ever, as if packets were dropped."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from headrace.io.http.socket_address import SocketAddress

# Linux takes one more than the backlog, and the others' attempts hang.
MORE_THAN_ENOUGH = 4


@asynccontextmanager
async def nobody_accepting() -> AsyncIterator[SocketAddress]:
    """It listens on loopback, and its queue is full."""
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(MORE_THAN_ENOUGH):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield SocketAddress(socket.AF_INET, listener.getsockname())
