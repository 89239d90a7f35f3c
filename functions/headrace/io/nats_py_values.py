"""What nats-py takes and gives, from and to the values of our port. Called by `headrace.io.nats_py` only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import nats.aio.client
import nats.errors
from nats.aio.client import RawCredentials
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.core import nats_wire
from headrace.core.errors import Refused
from headrace.core.nats_wire import Arrival, Credentials
from headrace.io import log
from headrace.io.client import Headers, OnArrival

FOREIGN = (nats.errors.Error, OSError)
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


def signing(credentials: Credentials | None) -> dict[str, Any]:
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


async def shut(client: nats.aio.client.Client) -> None:
    """Close it, whatever the connection has come to: nats-py writes to transports that are gone, and lets that out."""
    try:
        await client.close()
    except Exception as error:  # noqa: BLE001  # it ends with this call, or has ended
        _log.debug("nats-py failed to close", error=repr(error))


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
            except (*FOREIGN, TimeoutError):
                _log.debug("drain failed")

    async def close(self) -> None:
        self._forget(self)
        if self._subscription is not None:
            try:
                await self._subscription.unsubscribe()
            except FOREIGN:
                _log.debug("unsubscribe failed")

    async def _arrived(self, message: Msg) -> None:
        self._on_arrival(arrival(message))
