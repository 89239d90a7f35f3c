"""A TCP relay that can hold back the server's bytes, so that they are on their way while something else happens."""

from __future__ import annotations

import asyncio
from types import TracebackType

CHUNK = 64 * 1024


class Relay:
    """Listens on a loopback port and passes everything on to another; on the test's own loop."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def hold(self) -> None:
        """Keep what the server says from now on."""
        self._open.clear()

    def release(self) -> None:
        """Pass it on, and all that follows."""
        self._open.set()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._writers |= {writer, server_writer}
        await asyncio.gather(
            self._pump(reader, server_writer, held=False), self._pump(server_reader, writer, held=True)
        )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, held: bool) -> None:
        try:
            while data := await reader.read(CHUNK):
                if held:
                    await self._open.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
