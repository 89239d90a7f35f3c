"""A connection to our HTTP server without a socket: bytes in, answers out.

The caller decides in which pieces the bytes reach the server; no socket grants that.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState

from headrace.server.protocol import BoundedProtocol


class Seen(NamedTuple):
    """A whole request, as it came to the application."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass(slots=True)
class Exchange:
    """What came of a connection: the requests that the application answered with 202, and all that was written back."""

    requests: list[Seen] = field(default_factory=list)
    written: bytes = b""


class Transport(asyncio.Transport):
    """Keeps what is written; nothing is after it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1), "sockname": ("10.0.0.2", 80)})
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def exchange(pieces: tuple[bytes, ...]) -> Exchange:
    """Feed a new connection with these pieces, let each take effect, and end it."""
    done, transport, state = Exchange(), Transport(), ServerState()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            said = await receive()
            if said["type"] == "http.disconnect":
                return
            body, more = body + said["body"], said["more_body"]
        done.requests.append(Seen(scope["method"], scope["path"], tuple(scope["headers"]), body))
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    _CONFIG.loaded_app = application
    serving = BoundedProtocol(_CONFIG, state, {}, asyncio.get_running_loop())
    serving.connection_made(transport)
    for piece in pieces:
        if transport.closed:
            break
        serving.data_received(piece)
        await _settled(state)
    transport.closed = True
    serving.connection_lost(None)
    await _settled(state)
    assert not state.tasks, "a request is still served after its connection was lost"
    done.written = bytes(transport.written)
    return done


async def _settled(state: ServerState) -> None:
    """Let every request go as far as it can."""
    before = -1
    while before != state.total_requests:
        before = state.total_requests
        for _ in range(4):
            await asyncio.sleep(0)


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """In the place of the application of each exchange."""


_CONFIG = uvicorn.Config(
    _nothing, log_config=None, access_log=False, ws="none", lifespan="off", http=BoundedProtocol, log_level="critical"
)
_CONFIG.load()
