"""TLS in front of a port that speaks plain HTTP, with a certificate that can be replaced by another one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType

from tests.support.http.authorities import Issued
from tests.support.nats.nats_server import free_port


class TlsFront:
    """Use it as an asynchronous context manager."""

    def __init__(self, behind: int, certificate: Issued) -> None:
        """Args:
        behind: the port that is behind it, on the loopback.
        """
        self.port = free_port()
        self._behind = behind
        self._certificate = certificate
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> TlsFront:
        context = self._certificate.serving()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def show(self, certificate: Issued) -> None:
        """Cut all connections, as an API server that is restarted with this one."""
        await self.close()
        self._certificate = certificate
        await self.__aenter__()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._behind)
            self._open |= {writer, ours}
            try:
                await asyncio.gather(_pass_on(reader, ours), _pass_on(theirs, writer))
            finally:
                self._open -= {writer, ours}


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await source.read(1 << 16):
            sink.write(chunk)
            await sink.drain()
    with suppress(OSError, RuntimeError):
        sink.close()
