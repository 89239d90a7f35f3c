"""The data path over nats-py: publish with ack, pull, settle, and the aside stream's records.

Turns what the server and nats-py say into our values and errors; decides nothing about events. Every publish outcome
is one of stored, refused or unknown, and an unknown one is tried again with the same message until its time is up:
a time-out never means "not stored", so the message must carry a `Nats-Msg-Id` for the server to know it again.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from headrace.core import jetstream
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.jetstream import HEADROOM_BYTES, Message, PubAck
from headrace.core.nats_codec import NatsMessage, size_of
from headrace.io.api import PREFIX, ApiError, JetStreamApi
from headrace.io.connection import Connection
from headrace.io.pull import OnEnd, OnMessage, PullInbox

# One try of a publish; shorter than the whole deadline, so that an ack lost with a dying server is asked for again.
TRY_SECONDS = 2.0
# Between tries while the server is there but JetStream is not, as in the moments after its start.
PAUSE_SECONDS = 0.1
MISSING_SECONDS = 1.0
DEFAULT_MAX_PAYLOAD = 1024 * 1024
FULL_RETRY_AFTER = 10.0

# JetStream error numbers: the stream or the account has no room left.
FULL = {10077, 10047, 10023, 10028}
TOO_LARGE = {10054, 10097}
SEALED = {10109, 10052}


class Broken(HeadraceError):
    """The connection broke while an answer was awaited: the outcome is unknown. Never leaves `headrace.io`."""


class JetStream:
    """Publish, pull and settle on one connection."""

    def __init__(self, connection: Connection, api: JetStreamApi) -> None:
        self._connection = connection
        self._api = api
        self._client: Client | None = None
        self._prefix = ""
        self._serial = 0
        self._awaited: dict[str, asyncio.Future[Msg]] = {}
        self._subscribing = asyncio.Lock()
        self._missing: dict[str, float] = {}
        connection.on_disconnect.append(self._fail_awaited)

    @property
    def max_event_bytes(self) -> int:
        """The largest message, headers included, that may be published as an event."""
        return self.max_payload - HEADROOM_BYTES

    @property
    def max_payload(self) -> int:
        """The server's max_payload; its default of 1 MiB before the first connection."""
        return self._client.max_payload if self._client is not None else DEFAULT_MAX_PAYLOAD

    async def publish(self, message: NatsMessage, timeout: float) -> PubAck:
        """Store an event and wait for the PubAck, over restarts of the server.

        Args:
            message: with a Nats-Msg-Id, or a retry may store it twice.
            timeout: seconds in all.

        Raises:
            Refused: 404 no stream captures the subject; 413 too large; 507 the stream is full; 403 sealed or forbidden.
            Unavailable: no answer in time; the event may or may not be stored.
        """
        return await self._publish(message, timeout, headroom=HEADROOM_BYTES)

    async def publish_aside(self, message: NatsMessage, timeout: float) -> PubAck:
        """Like `publish`, for stage records and parked events: they may use the headroom that events leave."""
        return await self._publish(message, timeout, headroom=0)

    async def pull_inbox(self, stream: str, consumer: str, on_message: OnMessage, on_end: OnEnd) -> PullInbox:
        """An open inbox to pull into; the caller closes it."""
        inbox = PullInbox(self._connection, stream, consumer, on_message, on_end)
        await inbox.open()
        return inbox

    async def settle(self, message: Message, payload: bytes) -> None:
        """Send an ack, nak or in-progress; not confirmed by the server.

        Raises:
            Unavailable: it could not even be sent.
        """
        client = await self._connection.client(TRY_SECONDS)
        try:
            await client.publish(message.reply, payload)
        except (nats.errors.Error, OSError) as error:
            raise Unavailable(f"the message could not be settled: {error!r}") from error

    async def ack(self, message: Message, timeout: float) -> None:
        """Ack, and wait until the server confirms it.

        Raises:
            Unavailable: no confirmation; the event may come again.
        """
        try:
            await self._request(
                await self._ready(timeout), NatsMessage(message.reply, {}, jetstream.ACK), timeout
            )
        except (Broken, TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable(f"the ack was not confirmed: {error!r}") from error

    async def last(self, stream: str, subject: str, timeout: float) -> bytes | None:
        """The newest message of a subject, None without one.

        Raises:
            Unavailable: no answer.
        """
        asked = NatsMessage(f"{PREFIX}DIRECT.GET.{stream}.{subject}", {}, b"")
        try:
            answer = await self._request(await self._ready(timeout), asked, timeout)
        except (Broken, TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable(f"the record {subject} could not be read: {error!r}") from error
        status = (answer.headers or {}).get("Status")
        if status == "404":
            return None
        if status is not None:
            raise Unavailable(f"the record {subject} could not be read: status {status}")
        return answer.data

    async def forget(self, stream: str, subject: str, timeout: float) -> None:
        """Delete the record of a subject; what is not there is fine."""
        await self._api.call(f"STREAM.PURGE.{stream}", {"filter": subject}, timeout=timeout)

    async def hint(self, subject: str) -> None:
        """A core NATS message without payload; lost when nobody listens."""
        client = self._client
        if client is not None and client.is_connected:
            await client.publish(subject)

    async def _publish(self, message: NatsMessage, timeout: float, *, headroom: int) -> PubAck:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        why = "no answer"
        while (left := deadline - loop.time()) > 0:
            client = await self._ready(left)
            self._check(client, message, headroom, loop.time())
            try:
                answer = await self._request(client, message, min(left, TRY_SECONDS))
            except (Broken, TimeoutError, nats.errors.Error, OSError) as error:
                why = repr(error)
                await asyncio.sleep(0)
                continue
            if (answer.headers or {}).get("Status") == "503":
                await self._refuse_if_missing(message.subject, deadline - loop.time())
                why = "JetStream has no leader for the stream, or is not ready"
                await asyncio.sleep(min(PAUSE_SECONDS, max(0.0, deadline - loop.time())))
                continue
            return _pub_ack(answer.data, message.subject)
        raise Unavailable(f"the event was not stored for sure within {timeout:.1f} s: {why}")

    def _check(self, client: Client, message: NatsMessage, headroom: int, now: float) -> None:
        limit = client.max_payload - headroom
        size = size_of(message)
        if size > limit:
            raise Refused(
                f"{size} bytes exceed the limit of {limit} (the server's max_payload less room)", status=413
            )
        if self._missing.get(message.subject, 0.0) > now:
            raise Refused(f"no stream captures {message.subject}", status=404)

    async def _refuse_if_missing(self, subject: str, timeout: float) -> None:
        """No responders: either no stream has the subject, or JetStream is not there; only the API can tell."""
        try:
            found = await self._api.call(
                "STREAM.NAMES", {"subject": subject}, timeout=max(0.05, min(1.0, timeout))
            )
        except HeadraceError:
            return
        if not found.get("streams"):
            now = asyncio.get_running_loop().time()
            self._missing = {name: until for name, until in self._missing.items() if until > now}
            self._missing[subject] = now + MISSING_SECONDS
            raise Refused(f"no stream captures {subject}", status=404)

    async def _ready(self, timeout: float) -> Client:
        """The connected client, with our answers' inbox subscribed on it."""
        client = await self._connection.client(timeout)
        if client is self._client:
            return client
        async with self._subscribing:
            if client is not self._client:
                self._prefix = client.new_inbox()
                # Without limits: an ack that nats-py drops as "slow consumer" would cost a whole time-out.
                await client.subscribe(
                    f"{self._prefix}.*", cb=self._on_answer, pending_msgs_limit=0, pending_bytes_limit=0
                )
                self._client = client
        return client

    async def _request(self, client: Client, message: NatsMessage, timeout: float) -> Msg:
        self._serial += 1
        token = f"{self._prefix}.{self._serial}"
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._awaited[token] = future
        try:
            await client.publish(message.subject, message.data, reply=token, headers=_headers(message))
            async with asyncio.timeout(timeout):
                return await future
        finally:
            self._awaited.pop(token, None)

    async def _on_answer(self, answer: Msg) -> None:
        future = self._awaited.get(answer.subject)
        if future is not None and not future.done():
            future.set_result(answer)

    def _fail_awaited(self) -> None:
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(Broken("the connection broke"))


def _headers(message: NatsMessage) -> dict[str, Any] | None:
    return dict(message.headers) or None


def _pub_ack(data: bytes, subject: str) -> PubAck:
    try:
        body = json.loads(data)
        error = body.get("error")
        if error is None:
            return PubAck(str(body["stream"]), int(body["seq"]), bool(body.get("duplicate", False)))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unavailable(f"something that is not JetStream answered on {subject}: {data[:80]!r}") from None
    raise refusal(ApiError(subject, error))


def refusal(error: ApiError) -> HeadraceError:
    """What a JetStream error on a publish means for the producer."""
    if error.err_code in FULL:
        return Refused(f"the channel is full: {error.description}", status=507, retry_after=FULL_RETRY_AFTER)
    if error.err_code in TOO_LARGE:
        return Refused(f"the channel refuses events of this size: {error.description}", status=413)
    if error.err_code in SEALED:
        return Refused(f"the channel takes no more events: {error.description}", status=403)
    return Unavailable(f"the channel could not store the event: {error}")
