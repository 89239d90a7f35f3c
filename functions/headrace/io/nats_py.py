"""The fallback client: nats-py behind our port, for whoever sets `NATS_CLIENT=nats-py`.

Never gives up: a server that is away is retried for ever, and a client that nats-py closed for good (any -ERR but a
few does that) is replaced. Credentials are files, read again at each connect. Several times the CPU of the engine.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as PySubscription

from headrace.core import nats_wire
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.nats_wire import Arrival
from headrace.core.settings import NatsSettings
from headrace.io import log
from headrace.io.client import Broken, Closed, Headers, OnAnswer, OnArrival, OnPulled

# Two missed pings at this pace are noticed in 6 s; nats-py's own 120 s would take minutes (measured).
PING_SECONDS = 3
CONNECT_SECONDS = 2
# Short, since a NATS restart is usually over within the publish deadline of `receive`; jitter parts the herd.
RECONNECT_SECONDS = 0.25

_FOREIGN = (nats.errors.Error, OSError)
_log = log.get("nats")


class NatsPy:
    """A `headrace.io.client.Client` on nats-py."""

    def __init__(self, settings: NatsSettings, *, name: str = "headrace") -> None:
        self._settings = settings
        self._name = name
        self._client: nats.aio.client.Client | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closed = False
        self._up = asyncio.Event()
        self._subscriptions: dict[_Subscribed, str] = {}
        self._answers: dict[str, asyncio.Future[Arrival]] = {}
        self._prefix = ""
        self._serial = 0
        self.on_disconnect: list[Callable[[], None]] = []

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def max_payload(self) -> int:
        return self._client.max_payload if self._client is not None else nats_wire.DEFAULT_MAX_PAYLOAD

    async def ready(self, timeout: float) -> None:
        if self.connected:
            return
        try:
            async with asyncio.timeout(timeout):
                while not self.connected:
                    self._open()
                    self._up.clear()
                    await self._up.wait()
        except TimeoutError:
            raise Unavailable(f"NATS is not reachable within {timeout:.1f} s") from None

    async def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: Headers | None = None
    ) -> None:
        client = self._connected()
        try:
            await client.publish(subject, data, reply=reply, headers=_checked(headers, data, self.max_payload))
        except _FOREIGN as error:
            raise Unavailable(f"nothing could be sent: {error!r}") from error

    def answer(self, reply: str | bytes, data: bytes) -> bool:  # noqa: ARG002  # the port's names
        return False  # nats-py sends in coroutines only.

    async def request(
        self, subject: str, data: bytes = b"", *, headers: Headers | None = None, timeout: float
    ) -> Arrival:
        deadline = asyncio.get_running_loop().time() + timeout
        await self.ready(timeout)
        self._serial += 1
        reply = f"{self._prefix}.{self._serial}"
        future: asyncio.Future[Arrival] = asyncio.get_running_loop().create_future()
        self._answers[reply] = future
        try:
            await self.publish(subject, data, reply=reply, headers=headers)
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError:
            raise Unavailable(f"no answer from {subject} within {timeout:.1f} s") from None
        finally:
            self._answers.pop(reply, None)
            # A failed one holds its traceback, and so this frame with the data in it: a cycle, rarely collected.
            del future

    def ask(self, subject: str, data: bytes, block: bytes, timeout: float, on_answer: OnAnswer) -> bool:  # noqa: ARG002  # the port's signature
        return False  # it can send from within a coroutine only

    async def subscribe(self, subject: str, on_arrival: OnArrival, on_pulled: OnPulled | None = None) -> _Subscribed:  # noqa: ARG002  # it knows no runs
        subscribed = _Subscribed(self, on_arrival)
        self._subscriptions[subscribed] = subject
        if self.connected:
            await subscribed.on(self._connected(), subject)
        else:
            self._open()
        return subscribed

    def forget(self, subscribed: _Subscribed) -> None:
        """For `_Subscribed` only."""
        self._subscriptions.pop(subscribed, None)

    async def flush(self, timeout: float) -> None:
        try:
            await self._connected().flush(timeout=max(1, round(timeout)))
        except (*_FOREIGN, TimeoutError) as error:
            raise Unavailable(f"NATS did not read what was sent: {error!r}") from error

    async def close(self) -> None:
        self._closed = True
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        client = self._client
        if client is not None and not client.is_closed:
            try:
                await client.flush(timeout=1)
            except (*_FOREIGN, TimeoutError):
                _log.debug("flush at close failed")
            await client.close()

    def _connected(self) -> nats.aio.client.Client:
        client = self._client
        if client is None or not client.is_connected:
            self._open()
            raise Unavailable("not connected to NATS")
        return client

    def _open(self) -> None:
        if self._closed:
            raise Closed
        alive = self._client is not None and not self._client.is_closed
        if not alive and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._dial(), name="nats-connect")

    async def _dial(self) -> None:
        """Try until a server takes us; nats-py's own first connect can't be told to wait with jitter."""
        warned = False
        while True:
            client = nats.aio.client.Client()
            try:
                await client.connect(**self._options())
            except (*_FOREIGN, TimeoutError, EOFError, asyncio.InvalidStateError) as error:
                if not warned:
                    _log.warning("cannot connect to NATS, still trying", servers=self._settings.url, error=repr(error))
                    warned = True
                await client.close()
                await asyncio.sleep(RECONNECT_SECONDS * (1 + random.random()))
            else:
                await self._adopt(client)
                return

    async def _adopt(self, client: nats.aio.client.Client) -> None:
        self._prefix = client.new_inbox()
        # Without limits: an answer that nats-py drops as "slow consumer" would cost a whole time-out.
        await client.subscribe(f"{self._prefix}.*", cb=self._on_answer, pending_msgs_limit=0, pending_bytes_limit=0)
        self._client = client
        for subscribed, subject in list(self._subscriptions.items()):
            await subscribed.on(client, subject)
        self._up.set()

    async def _on_answer(self, message: Msg) -> None:
        future = self._answers.get(message.subject)
        if future is not None and not future.done():
            future.set_result(_arrival(message))

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
            "closed_cb": self._on_closed,
            "error_cb": self._on_error,
        }
        files = {"user_credentials": settings.creds_file, "nkeys_seed": settings.nkey_seed_file}
        options |= {name: file for name, file in files.items() if file}
        if settings.user and settings.password is not None:
            options |= {"user": settings.user, "password": settings.password.get_secret_value()}
        if settings.token is not None:
            options["token"] = settings.token.get_secret_value()
        if settings.tls_ca_file or settings.tls_cert_file or settings.tls_first:
            options |= {"tls": _tls(settings), "tls_handshake_first": settings.tls_first}
        return options

    async def _on_disconnected(self) -> None:
        if not self._closed:
            _log.warning("connection to NATS lost")
        for future in self._answers.values():
            if not future.done():
                future.set_exception(Broken("the connection broke"))
        for listener in list(self.on_disconnect):
            listener()

    async def _on_closed(self) -> None:
        await self._on_disconnected()
        if not self._closed and self._subscriptions:
            self._open()

    async def _on_reconnected(self) -> None:
        _log.info("connection to NATS restored")
        self._up.set()

    async def _on_error(self, error: Exception) -> None:
        # One line per attempt would be a storm while NATS is away.
        _log.debug("nats client", error=repr(error))


class _Subscribed:
    """One subscription, over all clients that follow one another."""

    def __init__(self, owner: NatsPy, on_arrival: OnArrival) -> None:
        self._owner = owner
        self._on_arrival = on_arrival
        self._subscription: PySubscription | None = None

    async def on(self, client: nats.aio.client.Client, subject: str) -> None:
        self._subscription = await client.subscribe(
            subject, cb=self._arrived, pending_msgs_limit=0, pending_bytes_limit=0
        )

    async def drain(self, timeout: float) -> None:
        self._owner.forget(self)
        if self._subscription is not None:
            try:
                async with asyncio.timeout(timeout):
                    await self._subscription.drain()  # type: ignore[no-untyped-call]  # nats-py is half typed
            except (*_FOREIGN, TimeoutError):
                _log.debug("drain failed")

    async def close(self) -> None:
        self._owner.forget(self)
        if self._subscription is not None:
            try:
                await self._subscription.unsubscribe()
            except _FOREIGN:
                _log.debug("unsubscribe failed")

    async def _arrived(self, message: Msg) -> None:
        self._on_arrival(_arrival(message))


def _arrival(message: Msg) -> Arrival:
    given = message.headers or {}
    headers = {name.lower(): value for name, value in given.items()}
    # nats-py files the status line under these two names.
    status, description = headers.pop("status", ""), headers.pop("description", "")
    return Arrival(message.subject, message.reply, headers, message.data, status, description)


def _checked(headers: Headers | None, data: bytes, max_payload: int) -> dict[str, str] | None:
    """The headers as nats-py takes them, once the whole message is known to fit: too large costs the connection."""
    block = b""
    if headers:
        block = headers if isinstance(headers, bytes) else nats_wire.header_block(headers)
    size = len(block) + len(data)
    if size > max_payload:
        raise Refused(f"{size} bytes exceed the server's max_payload of {max_payload}", status=413)
    if not headers:
        return None
    given: Mapping[str, str] = dict(nats_wire.pairs(headers)) if isinstance(headers, bytes) else headers
    return {name: value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name, value in given.items()}


def _tls(settings: NatsSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.tls_ca_file)
        if settings.tls_cert_file and settings.tls_key_file:
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(
            f"the TLS files for NATS can't be read ({error}): check NATS_TLS_CA_FILE, NATS_TLS_CERT_FILE and "
            "NATS_TLS_KEY_FILE",
            field="NATS_TLS_CA_FILE",
        ) from error
    return context
