"""What nats-py takes and gives, from and to the values of our port. Called by `headrace.io.nats.nats_py` only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import nats.aio.client
import nats.errors
from nats.aio.client import RawCredentials
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.core.errors import Misconfigured, Refused
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival, Credentials
from headrace.io.nats.access import Entry
from headrace.io.nats.client import Headers, OnArrival
from headrace.io.process import log

# Two missed pings at this pace are noticed in 6 s; nats-py's own 120 s would take minutes (measured).
PING_SECONDS = 3
CONNECT_SECONDS = 2
SHUT_SECONDS = 2.0
# Short, since a NATS restart is usually over within the publish deadline of `receive`; jitter parts the herd.
RECONNECT_SECONDS = 0.25
_NOT_LET_IN = ("authorization", "authentication", "user ")
_ENDINGS = (nats.errors.UnexpectedEOF, ConnectionResetError, BrokenPipeError, EOFError)  # also of one that was refused

# RuntimeError is what uvloop says of a transport that has gone.
FOREIGN = (nats.errors.Error, OSError, RuntimeError)
_log = log.get("nats")


def arrival(message: Msg) -> Arrival:
    given = message.headers or {}
    headers = {name.lower(): value for name, value in given.items()}
    # nats-py files the status line under these two names.
    status, description = headers.pop("status", ""), headers.pop("description", "")
    return Arrival(message.subject, message.reply, headers, message.data, status, description)


def checked(headers: Headers | None, data: bytes, max_payload: int) -> dict[str, str] | None:
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


def options(entry: Entry) -> dict[str, Any]:
    """Where to connect, as whom, and how long to wait for what; -1 attempts are without end."""
    settings = entry.settings
    options: dict[str, Any] = {
        "servers": [server.strip() for server in settings.url.split(",")],
        "connect_timeout": CONNECT_SECONDS,
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": RECONNECT_SECONDS,
        "ping_interval": PING_SECONDS,
        "max_outstanding_pings": 2,
        **_signing(entry.credentials),
    }
    if settings.user and settings.password is not None:
        options |= {"user": settings.user, "password": settings.password.get_secret_value()}
    if settings.token is not None:
        options["token"] = settings.token.get_secret_value()
    # Also where nobody asks for it: to a server that demands TLS nats-py would go with a context of its own.
    return options | {"tls": entry.context(), "tls_handshake_first": settings.tls_first}


def _signing(credentials: Credentials | None) -> dict[str, Any]:
    """The options with which nats-py signs; it has no place for a JWT and a seed but the text of a file."""
    if credentials is None:
        return {}
    if not credentials.jwt:
        return {"nkeys_seed_str": credentials.seed}
    text = (
        f"-----BEGIN NATS USER JWT-----\n{credentials.jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{credentials.seed}\n------END USER NKEY SEED------\n"
    )
    return {"user_credentials": RawCredentials(text)}


def refusal(error: Exception) -> str | None:
    """The words with which we were not let in, none where it is another trouble; None: that can't be told from it."""
    words = str(error).removeprefix("nats: ").strip("'")
    if isinstance(error, Misconfigured) or any(word in words.lower() for word in _NOT_LET_IN):
        return words
    return None if isinstance(error, _ENDINGS) else ""


async def shut(client: nats.aio.client.Client) -> None:
    """Close it, whatever the connection has come to: nats-py writes to transports that are gone, and lets that out."""
    try:
        # In the middle of a TLS handshake it would wait for a transport that nobody tells it the end of.
        async with asyncio.timeout(SHUT_SECONDS):
            await client.close()
    except asyncio.CancelledError:
        # Closing cancels nats-py's own task, and with it the future that both wait for: then not we are meant.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
    except Exception as error:  # noqa: BLE001  # it ends with this call, or has ended
        _log.debug("nats-py failed to close", error=repr(error))
    finally:
        hang_up(client)


def is_over(task: asyncio.Task[Any] | None) -> bool:
    """Has it ended, in whatever way?"""
    if task is None or not task.done():
        return False
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("nats-py has given up", error=repr(error))
    return True


def hang_up(client: nats.aio.client.Client) -> None:
    """Close its socket, which nats-py forgets when a dial or its own close fails; again is no harm."""
    transport = client._transport
    if transport is not None:
        with suppress(OSError, RuntimeError):
            transport.close()  # type: ignore[no-untyped-call]  # nats-py is half typed


class PySubscribed:
    """One subscription, over all clients that follow one another."""

    def __init__(self, forget: Callable[[PySubscribed], None], on_arrival: OnArrival) -> None:
        self._forget = forget
        self._on_arrival = on_arrival
        self._subscription: Subscription | None = None

    async def on(self, client: nats.aio.client.Client, subject: str) -> None:
        self._subscription = await client.subscribe(
            subject, cb=self._arrived, pending_msgs_limit=0, pending_bytes_limit=0
        )

    async def drain(self, timeout: float) -> None:
        self._forget(self)
        if self._subscription is not None:
            try:
                async with asyncio.timeout(timeout):
                    await self._subscription.drain()  # type: ignore[no-untyped-call]  # nats-py is half typed
            except Exception as error:  # noqa: BLE001  # with the connection it is gone all the same
                _log.debug("drain failed", error=repr(error))

    async def close(self) -> None:
        self._forget(self)
        if self._subscription is not None:
            try:
                await self._subscription.unsubscribe()
            except Exception as error:  # noqa: BLE001  # as above
                _log.debug("unsubscribe failed", error=repr(error))

    async def _arrived(self, message: Msg) -> None:
        self._on_arrival(arrival(message))
