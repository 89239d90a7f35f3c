"""One inbox into which a lease pulls, one pull request at a time.

NATS can't cancel a pull: what was asked for may come until the request expires, so the inbox stays open until then
and hands on every arrival, wanted or not. No client re-issues a pull after a reconnect, so a broken connection ends
the open pull here and the lease asks again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.core.errors import Unavailable
from headrace.core.jetstream import Message, PullEnd, ack_tokens, pull_end
from headrace.io import log
from headrace.io.connection import Connection

OnMessage = Callable[[Message], None]
OnEnd = Callable[[PullEnd], None]

# How long after its expiry a pull without a status counts as lost: the server's own timer runs late under load.
OVERDUE_SECONDS = 1.0

_log = log.get("pull")


class PullInbox:
    """A subscription that pulls of one consumer answer to.

    Attributes:
        on_message: called for each message, also after its pull has ended.
        on_end: called once per pull.
    """

    def __init__(
        self, connection: Connection, stream: str, consumer: str, on_message: OnMessage, on_end: OnEnd
    ) -> None:
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._consumer = consumer
        self._on_message = on_message
        self._on_end = on_end
        self._subscription: Subscription | None = None
        self._client: Client | None = None
        self._prefix = ""
        self._serial = 0
        self._remaining = 0
        self._overdue: asyncio.TimerHandle | None = None

    @property
    def pulling(self) -> bool:
        """Is a pull open?"""
        return self._overdue is not None

    async def open(self) -> None:
        await self._subscribe()
        self._connection.on_disconnect.append(self._on_disconnect)

    async def pull(self, batch: int, expires: timedelta, max_bytes: int) -> None:
        """Ask for up to `batch` messages of `max_bytes` in all, waiting on the server for at most `expires`.

        Raises:
            Unavailable: the request could not be sent.
        """
        await self._subscribe()
        self._serial += 1
        self._remaining = batch
        self._overdue = asyncio.get_running_loop().call_later(
            expires.total_seconds() + OVERDUE_SECONDS, self._end, PullEnd.BROKEN
        )
        request = {"batch": batch, "expires": int(expires.total_seconds() * 1e9), "max_bytes": max_bytes}
        client = await self._connection.client(1.0)
        try:
            await client.publish(
                self._subject, json.dumps(request).encode(), reply=f"{self._prefix}.{self._serial}"
            )
        except (nats.errors.Error, OSError) as error:
            self._clear()
            raise Unavailable(f"the pull could not be sent: {error!r}") from error

    async def close(self) -> None:
        """Stop listening. Whatever a still open pull would bring is redelivered after the ack wait."""
        self._clear()
        self._connection.on_disconnect.remove(self._on_disconnect)
        if self._subscription is not None:
            try:
                await self._subscription.unsubscribe()
            except (nats.errors.Error, OSError):
                _log.debug("unsubscribe failed", consumer=self._consumer)

    async def _subscribe(self) -> None:
        """Subscribe on the current client: the connection replaces one that was closed for good."""
        client = await self._connection.client(1.0)
        if client is self._client:
            return
        self._prefix = client.new_inbox()
        # Without limits: the window of the lease bounds what is asked for.
        self._subscription = await client.subscribe(
            f"{self._prefix}.*", cb=self._on_arrival, pending_msgs_limit=0, pending_bytes_limit=0
        )
        self._client = client

    async def _on_arrival(self, arrival: Msg) -> None:
        tokens = ack_tokens(arrival.reply) if arrival.reply else None
        if tokens is None:
            self._on_status(arrival)
            return
        headers = {name.lower(): value for name, value in (arrival.headers or {}).items()}
        message = Message(
            arrival.subject,
            headers,
            arrival.data,
            arrival.reply,
            tokens.stream,
            tokens.consumer,
            tokens.delivered,
            tokens.sequence,
            tokens.timestamp_ns,
        )
        self._remaining -= 1
        self._on_message(message)
        if self._remaining <= 0:
            self._end(PullEnd.FILLED)

    def _on_status(self, arrival: Msg) -> None:
        if arrival.subject != f"{self._prefix}.{self._serial}":
            return
        headers = arrival.headers or {}
        status, description = headers.get("Status", ""), headers.get("Description", "")
        end = pull_end(status, description)
        if end is PullEnd.BROKEN:
            _log.debug("pull ended", consumer=self._consumer, status=status, description=description)
        if end is not None:
            self._end(end)

    def _on_disconnect(self) -> None:
        self._end(PullEnd.BROKEN)

    def _end(self, end: PullEnd) -> None:
        if self._overdue is not None:
            self._clear()
            self._on_end(end)

    def _clear(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
