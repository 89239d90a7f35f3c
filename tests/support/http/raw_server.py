"""A server that says exactly the bytes that a test wants, when it wants: for clients that must bear anything.

A script plays one connection; it ends, and the connection is closed, unless the script has done so.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

LARGEST_HEAD = 1024 * 1024
ROUNDS_TO_BEGIN = 10
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True)
class Request:
    """One request as it came: `head` with its blank line."""

    head: bytes
    body: bytes

    @property
    def target(self) -> bytes:
        return self.head.split(b" ", 2)[1]

    @property
    def lines(self) -> list[bytes]:
        return self.head.removesuffix(b"\r\n\r\n").split(b"\r\n")


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: RawServer) -> None:
        self._reader = reader
        self._writer = writer
        self._server = server

    async def request(self) -> Request:
        """The next request, whole.

        Raises:
            EOFError: the client has closed the connection.
        """
        head = await self.head()
        length = _LENGTH.search(head)
        request = Request(head, await self._reader.readexactly(int(length[1]) if length else 0))
        self._server.requests.append(request)
        return request

    async def head(self) -> bytes:
        """The head of a request, and nothing behind it."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def until(self, end: bytes) -> bytes:
        """What comes, up to and with these bytes."""
        return await self._reader.readuntil(end)

    async def say(self, *pieces: bytes, pause: float = 0.0) -> None:
        """Each piece is sent on its own, that many seconds after the one before."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(pause)

    async def gone(self) -> None:
        """Wait until the client has closed its end."""
        try:
            while await self._reader.read(64 * 1024):
                pass
        except ConnectionError:
            pass

    def finish(self) -> None:
        """Close our direction only."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        plug = self._writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    """What a running server has seen.

    Attributes:
        connections: how many were made so far.
        open: how many are open now.
    """

    scheme: str
    host: str
    port: int = 0
    connections: int = 0
    open: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        named = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{named}:{self.port}"


@asynccontextmanager
async def serving(
    *scripts: Script, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """A server on loopback; the first connection plays the first script and so on, the last script stays."""
    server = RawServer("http" if tls is None else "https", host)
    playing: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        playing.add(task)
        writers.append(writer)
        script = scripts[min(server.connections, len(scripts) - 1)]
        server.connections += 1
        server.open += 1
        try:
            await script(Peer(reader, writer, server))
        except (EOFError, ConnectionError):
            pass
        except asyncio.CancelledError:
            # The test is over.
            pass
        finally:
            server.open -= 1
            playing.discard(task)
            writer.close()

    listener = await asyncio.start_server(connected, host, port, ssl=tls, limit=LARGEST_HEAD)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        # What was accepted a moment ago has not begun to play: a few rounds of the event loop, and it can be ended.
        for _ in range(ROUNDS_TO_BEGIN):
            await asyncio.sleep(0)
        for task in list(playing):
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        # On a busy machine a connection may be closing still, and would be reported as left open by the next test.
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
        await listener.wait_closed()


def answering(*answers: bytes) -> Script:
    """To each request of a connection the next of these, and the last one for ever."""

    async def script(peer: Peer) -> None:
        turn = 0
        while True:
            await peer.request()
            await peer.say(answers[min(turn, len(answers) - 1)])
            turn += 1

    return script


def saying(answer: bytes) -> Script:
    """That answer to one request; then our direction is closed."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)
        peer.finish()
        await peer.gone()

    return script
