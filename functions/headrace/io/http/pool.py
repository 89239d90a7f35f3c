"""The connections of a client: which are open, which wait for another request, and how new ones are opened.

The pool knows servers and time; it knows no requests. All connections of a client are in one pool.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from headrace.io.http.address import Address
from headrace.io.http.connection import TICK, ConnectionBroken, HttpConnection
from headrace.io.http.dial import Dial, Unreachable
from headrace.io.http.resolver import Ask, NoAddress, Resolver
from headrace.io.http.tls import TlsContexts
from headrace.io.process import clock

# We wait for no server's TLS goodbye: we cut the connection, and this bounds the transport's own wait.
TLS_GOODBYE_SECONDS = 1.0


class Origin:
    """One server under one set of CA certificates, the keeper of its connections; the last used idle one is on top."""

    def __init__(self, pool: Pool, address: Address, ca_certs: str | None) -> None:
        self.address = address
        self.ca_certs = ca_certs
        self._pool = pool
        self._idle: list[HttpConnection] = []

    def take(self, now: float) -> HttpConnection | None:
        """An idle connection that the server should still hold open; the last used is the likeliest."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            del self._pool.idle[connection]
            if now < connection.expires:
                return connection
            connection.abort()
        return None

    async def connect(self, deadline: float) -> HttpConnection:
        """A new connection.

        Args:
            deadline: on the monotonic clock, for look-up, connection and handshake.

        Raises:
            TimeoutError: the deadline has passed.
            ConnectionBroken: the name does not exist, no server listens, or TLS fails.
            InvalidSpec: the CA certificates can't be read.
        """
        return await self._pool.connect(self, deadline)

    def free(self, connection: HttpConnection, keep_alive: float) -> None:
        if self._pool.closing:
            connection.abort()
            return
        self._idle.append(connection)
        self._pool.keep(self, connection, keep_alive)

    def gone(self, connection: HttpConnection) -> None:
        if self._pool.idle.pop(connection, None) is not None:
            self._idle.remove(connection)

    def closed(self, connection: HttpConnection) -> None:
        self._pool.closed(connection)


class Pool:
    """All connections of a client; made inside the loop that uses it.

    Attributes:
        open: the connections that may be in use. idle: those of them that wait for another request, longest first.
        closing: no request is sent any more.
        trust: authorities of all new connections, PEM, beside the system's and those of the destination.
    """

    def __init__(self, most_idle: int, ask: Ask, dial: Dial) -> None:
        self._most_idle = most_idle
        self.open: set[HttpConnection] = set()
        self.idle: dict[HttpConnection, Origin] = {}
        self.closing = False
        self.trust = ""
        self._loop = asyncio.get_running_loop()
        self._resolver = Resolver(ask)
        self._dial = dial
        self._contexts = TlsContexts()
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        self._empty = asyncio.Event()

    async def connect(self, origin: Origin, deadline: float) -> HttpConnection:
        """See `Origin.connect`."""
        self._refuse_when_closing()
        address = origin.address
        context = self._contexts.context(origin.ca_certs, self.trust) if address.tls else None
        async with asyncio.timeout(deadline - clock.monotonic()):
            try:
                addresses = await self._resolver.addresses(address.host, address.port)
                socket = await self._dial(addresses)
            except NoAddress as error:
                raise ConnectionBroken(str(error)) from error
            except Unreachable as error:
                raise ConnectionBroken(f"can't connect to {address}: {error}") from error
            try:
                _, connection = await self._loop.create_connection(
                    lambda: HttpConnection(origin), sock=socket, **_tls_options(context, address, deadline)
                )
            except (OSError, EOFError) as error:
                doing = f"TLS with {address} failed" if address.tls else f"can't connect to {address}"
                raise ConnectionBroken(f"{doing}: {_words(error)}") from error
        # Not in `connection_made`: uvloop never calls `connection_lost` for a connection that was cancelled there.
        if connection.usable:
            self.open.add(connection)
        if self.closing:
            connection.abort()
        self._refuse_when_closing()
        return connection

    def keep(self, origin: Origin, connection: HttpConnection, keep_alive: float) -> None:
        """Keep an idle connection for `keep_alive` seconds, then close it."""
        connection.expires = expires = clock.monotonic() + keep_alive
        self.idle[connection] = origin
        if len(self.idle) > self._most_idle:
            next(iter(self.idle)).abort()
        if self._sweep is None or expires < self._sweep_due:
            self._plan_sweep(expires)

    def closed(self, connection: HttpConnection) -> None:
        self.open.discard(connection)
        if not self.open:
            self._empty.set()

    async def close(self) -> None:
        """Close every connection and wait until the transports have released them; open exchanges break."""
        self.closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.open):
            connection.abort()
        self._resolver.close()
        if self.open:
            self._empty.clear()
            await self._empty.wait()

    def _refuse_when_closing(self) -> None:
        if self.closing:
            raise ConnectionBroken("this HTTP client is closed")

    def _plan_sweep(self, due: float) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_due = due
        self._sweep = self._loop.call_later(max(0.0, due - clock.monotonic()), self._close_expired)

    def _close_expired(self) -> None:
        self._sweep = None
        now = clock.monotonic() + TICK
        for connection in [connection for connection in self.idle if connection.expires <= now]:
            connection.abort()
        if self.idle:
            self._plan_sweep(min(connection.expires for connection in self.idle))


def _tls_options(context: ssl.SSLContext | None, address: Address, deadline: float) -> dict[str, Any]:
    if context is None:
        return {}
    return {
        "ssl": context,
        "server_hostname": address.server_name,
        # Our deadline counts; the event loop's own of 60 s must not come first.
        "ssl_handshake_timeout": max(1.0, deadline - clock.monotonic() + 1.0),
        "ssl_shutdown_timeout": TLS_GOODBYE_SECONDS,
    }


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return str(error) or "the server closed the connection"
