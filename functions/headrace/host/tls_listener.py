"""The TLS listener of a function: it listens as soon as there is a certificate, beside the plain one."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn

from headrace.io.process import log
from headrace.io.process.certificate import Certificate
from headrace.server.crowd import Crowd
from headrace.server.tls import TlsConnection

LOOK_SECONDS = 1.0
# A handshake that has not ended takes up to three times what an idle connection does, and a client ends it at once.
FEWER = 16

_log = log.get("tls")


class TlsListener:
    """One port, beside a server's own."""

    def __init__(self, certificate: Certificate, listener: socket.socket, crowd: Crowd) -> None:
        """Args:
        listener: bound, and does not listen yet.
        crowd: the server's connections.
        """
        self._certificate = certificate
        self._listener = listener
        self._shaking = Crowd(max(16, crowd.most // FEWER))
        # Why a connection was closed is counted in one place.
        self._shaking.closed = crowd.closed
        self._watching: asyncio.Task[None] | None = None

    def start(self, server: uvicorn.Server) -> None:
        """Serve until `stop`; the server closes the port, as its own."""
        self._watching = asyncio.get_running_loop().create_task(self._watch(server))

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, server: uvicorn.Server) -> None:
        serves = False
        while True:
            self._certificate.look()
            if not serves and self._certificate.context is not None:
                serves = True
                server.servers.append(await self._serve(server))
                _log.info("serving by TLS", addresses=["{}:{}".format(*self._listener.getsockname()[:2])])
            await asyncio.sleep(LOOK_SECONDS)

    async def _serve(self, server: uvicorn.Server) -> asyncio.Server:
        loop, config, state = asyncio.get_running_loop(), server.config, server.server_state

        def inside() -> asyncio.Protocol:
            protocol: Any = config.http_protocol_class
            made: asyncio.Protocol = protocol(config=config, server_state=state, app_state=server.lifespan.state)
            return made

        def connection() -> asyncio.Protocol:
            context = self._certificate.context
            if context is None:
                raise RuntimeError("it serves only with a certificate")
            return TlsConnection(context, inside, self._shaking, state.connections, loop)

        return await loop.create_server(connection, sock=self._listener, backlog=config.backlog)
