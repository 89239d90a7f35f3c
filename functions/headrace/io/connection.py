"""One NATS connection per process and event loop, opened at first use.

Never gives up: a server that is away is retried for ever, and a client that nats-py closed for good (any -ERR but a
few does that) is replaced at the next use. Credentials are files, read again at each connect. Callers wait no longer
than the time that they give.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import nats.aio.client
import nats.errors

from headrace.core.errors import Misconfigured, Unavailable
from headrace.core.settings import NatsSettings
from headrace.io import log

# Two missed pings at this pace are noticed in 6 s; nats-py's own 120 s would take minutes (facts/nats.md, section 5).
PING_SECONDS = 3
CONNECT_SECONDS = 2
# Short, since a NATS restart is usually over within the publish deadline of `receive`; jitter parts the herd.
RECONNECT_SECONDS = 0.25

_log = log.get("nats")


class Connection:
    """A lazily opened nats-py client.

    Attributes:
        on_disconnect: called, without arguments, whenever the connection breaks: whatever waits for an answer must
            ask again.
    """

    def __init__(self, settings: NatsSettings, *, name: str = "headrace") -> None:
        self._settings = settings
        self._name = name
        self._client: nats.aio.client.Client | None = None
        self._opening: asyncio.Task[nats.aio.client.Client] | None = None
        self._closed = False
        self._up = asyncio.Event()
        self.on_disconnect: list[Callable[[], None]] = []

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    async def client(self, timeout: float) -> nats.aio.client.Client:
        """The connected client.

        Args:
            timeout: seconds to wait for a connection.

        Raises:
            Unavailable: no server answered in that time; the attempts go on behind the scenes.
        """
        client = self._client
        if client is not None and client.is_connected:
            return client
        try:
            async with asyncio.timeout(timeout):
                while True:
                    client = await self._opened()
                    if client.is_connected:
                        return client
                    self._up.clear()
                    await self._up.wait()
        except TimeoutError:
            raise Unavailable(f"NATS is not reachable within {timeout:.1f} s") from None

    async def close(self) -> None:
        """Flush what is buffered and close; the connection can't be used again."""
        self._closed = True
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        if self._client is not None and not self._client.is_closed:
            try:
                await self._client.flush(timeout=1)
            except (nats.errors.Error, TimeoutError, OSError):
                _log.debug("flush at close failed")
            await self._client.close()

    async def _opened(self) -> nats.aio.client.Client:
        if self._client is not None and not self._client.is_closed:
            return self._client
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name="nats-connect")
        return await asyncio.shield(self._opening)

    async def _open(self) -> nats.aio.client.Client:
        """Try until a server takes us; nats-py's own first connect can't be told to wait with jitter."""
        warned = False
        while True:
            client = nats.aio.client.Client()
            try:
                await client.connect(**self._options())
            except (OSError, TimeoutError, nats.errors.Error, EOFError, asyncio.InvalidStateError) as error:
                if not warned:
                    _log.warning(
                        "cannot connect to NATS, still trying", servers=self._settings.url, error=repr(error)
                    )
                    warned = True
                await client.close()
                await asyncio.sleep(RECONNECT_SECONDS * (1 + random.random()))
            else:
                self._client = client
                self._up.set()
                _log.debug("connected", server=client.connected_url.netloc if client.connected_url else "")
                return client

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        options: dict[str, Any] = {
            "servers": [server.strip() for server in settings.url.split(",")],
            "name": self._name,
            "connect_timeout": CONNECT_SECONDS,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": RECONNECT_SECONDS,
            "ping_interval": PING_SECONDS,
            "max_outstanding_pings": 2,
            "disconnected_cb": self._on_disconnected,
            "reconnected_cb": self._on_reconnected,
            "closed_cb": self._on_disconnected,
            "error_cb": self._on_error,
            # Our own publishes check the size of the whole message; nats-py's pending buffer must hold acks only.
            "allow_reconnect": True,
        }
        if settings.creds_file:
            options["user_credentials"] = settings.creds_file
        if settings.nkey_seed_file:
            options["nkeys_seed"] = settings.nkey_seed_file
        if settings.user and settings.password is not None:
            options["user"] = settings.user
            options["password"] = settings.password.get_secret_value()
        if settings.token is not None:
            options["token"] = settings.token.get_secret_value()
        if settings.tls_ca_file or settings.tls_cert_file or settings.tls_first:
            options["tls"] = self._tls()
            options["tls_handshake_first"] = settings.tls_first
        return options

    def _tls(self) -> ssl.SSLContext:
        settings = self._settings
        try:
            context = ssl.create_default_context(cafile=settings.tls_ca_file)
            if settings.tls_cert_file and settings.tls_key_file:
                context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(
                f"the TLS files for NATS can't be read ({error}): check NATS_TLS_CA_FILE, NATS_TLS_CERT_FILE, "
                "NATS_TLS_KEY_FILE",
                field="NATS_TLS_CA_FILE",
            ) from error
        return context

    async def _on_disconnected(self) -> None:
        if not self._closed:
            _log.warning("connection to NATS lost")
        for listener in self.on_disconnect:
            listener()

    async def _on_reconnected(self) -> None:
        _log.info("connection to NATS restored")
        self._up.set()

    async def _on_error(self, error: Exception) -> None:
        # One line per attempt would be a storm while NATS is away.
        _log.debug("nats client", error=repr(error))


Connect = Callable[[float], Awaitable[nats.aio.client.Client]]
