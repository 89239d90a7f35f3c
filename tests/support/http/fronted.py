"""One connection with a short way in front of it, without a socket: what a test feeds, what is taken, what is answered.

Its fixtures are those of `tests/unit/server`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from headrace.core.http import Response
from headrace.server.protocol import BoundedProtocol
from tests.support.http.slow_clock import SlowClock

EVENT = b"POST /demo/%b HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n1"
STORED = Response(202)
ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
CLOSING = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
BY_ASGI = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
ONE, TWO, THREE = (EVENT % name for name in (b"one", b"two", b"three"))


class Transport(asyncio.Transport):
    """Remembers what was written; takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.closed = False
        self.aborted = False
        self.unread = 0

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.closed = self.aborted = True

    def close(self) -> None:
        self.closed = True


class Application:
    """Takes whole POSTs with a length the short way, answers them when told to; by ASGI it answers 200."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.answers: list[Callable[[Response], None]] = []
        self.by_asgi: list[tuple[str, bytes]] = []
        self.fault: Exception | None = None
        self.takes = True
        self.waits = False
        self.room = 1_000_000
        self.held = 0

    def short_way(self, *, secure: bool) -> Application:
        del secure
        return self

    def take(self, data: bytes, answer: Callable[[Response], None]) -> int | None:
        if self.fault is not None:
            raise self.fault
        found = re.match(rb"POST \S+ HTTP/1\.1\r\nhost: x\r\ncontent-length: (\d+)\r\n\r\n", data)
        if found is None or not self.takes or (lacks := int(found[1]) + found.end() - len(data)) < 0:
            return None
        if not lacks:
            self.taken.append(data)
            self.answers.append(answer)
        return lacks

    def hold(self, size: int, held: int) -> bool:
        if self.held > held and self.held + size > self.room:
            return False
        self.held += size
        return True

    def let_go(self, size: int) -> None:
        self.held -= size

    def when_full(self, ask: Callable[[], None]) -> None:
        pass

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            said = await receive()
            if said["type"] == "http.disconnect":
                return
            body, more = body + said["body"], said["more_body"]
        self.by_asgi.append((scope["path"], body))
        if self.waits:
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


@pytest.fixture
async def connection(application: Application, transport: Transport, clock: SlowClock) -> BoundedProtocol:
    settings = uvicorn.Config(application, http=BoundedProtocol, lifespan="off", proxy_headers=False)
    loop = cast(asyncio.AbstractEventLoop, clock)
    protocol = BoundedProtocol(config=settings, server_state=ServerState(), app_state={}, _loop=loop)
    protocol.connection_made(transport)
    return protocol


async def turns(passes: int = 20) -> None:
    """Let everything happen that can happen by itself."""
    for _ in range(passes):
        await asyncio.sleep(0)
