"""An HTTP proxy that makes tunnels, and remembers their ends and the credentials of each request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    """What a running one has seen.

    Attributes:
        tunnels: host and port of each, as they were asked for.
        authorizations: the credentials of each request; empty for none.
    """

    port: int = 0
    tunnels: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a tunnel, until either end closes it."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        place = head.split(" ", 2)[1]
        lines = (line.partition(": ") for line in head.splitlines()[1:])
        named = {name.lower(): value for name, _, value in lines}
        self.authorizations.append(named.get("proxy-authorization", ""))
        host, _, port = place.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        self.tunnels.append(place)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass_on(reader, back))
                tasks.create_task(_pass_on(there, writer))
        finally:
            back.close()
            writer.close()


@asynccontextmanager
async def proxying() -> AsyncIterator[ConnectProxy]:
    """A proxy on loopback."""
    proxy, playing = ConnectProxy(), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        playing.add(task)
        with suppress(asyncio.CancelledError, OSError, EOFError):
            await proxy.serve(reader, writer)
        playing.discard(task)

    listener = await asyncio.start_server(connected, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        for task in list(playing):
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await listener.wait_closed()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
