"""The data path: publish with ack, settle, and the aside stream's records.

It turns the server's answers into our values and errors; it decides nothing about events. Every publish ends as stored,
refused or unknown, and an unknown one is tried again with the same message until its time is up: a time-out never means
"not stored", so the message must carry a `Nats-Msg-Id`, by which the server knows it again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.event.nats_codec import MSG_ID, Encoded, NatsMessage, encoded
from headrace.core.nats import jetstream, payload
from headrace.core.nats.jetstream import HEADROOM_BYTES, Message, PubAck
from headrace.core.nats.nats_wire import Arrival
from headrace.io.jetstream.api import PREFIX, JetStreamApi
from headrace.io.jetstream.captured import Captured
from headrace.io.jetstream.pin import Pin
from headrace.io.jetstream.pub_acks import FULL_RETRY_AFTER, Overtaken, no_room, outcome, pub_ack
from headrace.io.jetstream.pull import OnEnd, OnMessage, PullInbox
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Answer, Broken
from headrace.io.process import clock

# One try of a publish; shorter than the whole deadline, so that an ack lost with a dying server is asked for again.
TRY_SECONDS = 2.0
# Between tries while the server is up but JetStream is not, as just after its start.
PAUSE_SECONDS = 0.1
TIME_TO_LIVE = "Nats-TTL"
EXPECTED_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
ADD_TRIES = 10
_MOST_DIGITS = 19
OnPublished: TypeAlias = Callable[[PubAck | HeadraceError], None]


class _Past(NamedTuple):
    """The tries of a publish so far.

    Attributes:
        timeout: seconds in all.
        deadline: on the loop's clock; 0 before the first try: `timeout` seconds from now.
        why: the reason that the last try failed.
        unsure: one of the tries may have been stored.
    """

    timeout: float
    deadline: float = 0.0
    why: str = "no answer"
    unsure: bool = False


class JetStream:
    """Publish, pull and settle on one connection."""

    def __init__(self, client: Client, api: JetStreamApi) -> None:
        self._client = client
        self._api = api
        self._captured = Captured(api)
        self._going_on: set[asyncio.Future[PubAck]] = set()

    @property
    def max_event_bytes(self) -> int:
        """The largest message, headers included, that may be published as an event.

        Raises:
            Unavailable: the server takes none; its administrator can mend that, a sender can't.
        """
        if problem := payload.problem(self._client.max_payload):
            raise Unavailable(f"{problem}; {payload.DO}", retry_after=FULL_RETRY_AFTER)
        return self._client.max_payload - HEADROOM_BYTES

    @property
    def max_payload(self) -> int:
        """The server's max_payload; its default of 1 MiB before the first connection."""
        return self._client.max_payload

    async def publish(self, message: Encoded, timeout: float) -> PubAck:
        """Store an event and wait for the PubAck, over restarts of the server.

        Args:
            message: with a Nats-Msg-Id, or a retry may store it twice.
            timeout: seconds in all.

        Raises:
            Refused: 404 no stream captures the subject; 413 too large; 507 the stream is full; 403 sealed or forbidden;
                503 not stored, and too many others ask whether a stream captures theirs.
            Unavailable: no answer in time; the event may or may not be stored.
        """
        return await self._publish(message, _Past(timeout), headroom=HEADROOM_BYTES)

    def publish_now(self, message: Encoded, timeout: float, done: OnPublished) -> bool:
        """Like `publish`, without a coroutine as long as all goes well, and only if the message can be sent at once.

        Args:
            done: called once, never from within this call, with the PubAck or the error that `publish` would raise.

        Returns:
            Is the message on its way? If not, nothing has happened: call `publish`.
        """
        began = clock.monotonic()
        subject, block, data = message
        if len(block) + len(data) > self._client.max_payload - HEADROOM_BYTES:
            return False
        if self._captured.is_silent(subject):
            return False

        def go_on(why: str, *, unsure: bool) -> None:
            deadline = asyncio.get_running_loop().time() + timeout - (clock.monotonic() - began)
            self._go_on(message, _Past(timeout, deadline, why, unsure), done)

        def asked(answer: Answer) -> None:
            if isinstance(answer, bytes):
                self._captured.answers(subject)
                done(outcome(answer, subject))
            elif isinstance(answer, HeadraceError):
                if isinstance(answer, Refused):
                    done(answer)
                else:
                    go_on(str(answer), unsure=True)
            elif answer.status != "503":
                done(outcome(answer.data, subject))
            elif (refusal := self._captured.refusal(subject)) is not None:
                done(refusal)
            else:
                go_on("no responders", unsure=False)

        return self._client.ask(subject, data, block, min(timeout, TRY_SECONDS), asked)

    async def publish_aside(self, message: Encoded, timeout: float) -> PubAck:
        """`publish` for stage records and parked events: they may use the headroom that events leave."""
        return await self._publish(message, _Past(timeout), headroom=0)

    async def pull_inbox(
        self, stream: str, consumer: str, on_message: OnMessage, on_end: OnEnd, *, pinned: bool = False
    ) -> PullInbox:
        """An open inbox to pull into; the caller closes it.

        Args:
            pinned: the consumer is a by-key one and serves one inbox at a time.
        """
        pin = Pin(self._client, self._api, stream, consumer) if pinned else None
        inbox = PullInbox(self._client, stream, consumer, on_message, on_end, pin)
        await inbox.open()
        return inbox

    async def settle(self, message: Message, payload: bytes) -> None:
        """Send an ack, nak or in-progress; not confirmed by the server.

        Raises:
            Unavailable: it could not even be sent.
        """
        if not self._client.connected:
            await self._client.ready(TRY_SECONDS)
        await self._client.publish(message.reply, payload)

    def settle_now(self, message: Message, payload: bytes) -> bool:
        """`settle` without waiting; False: nothing was sent, since it would have to wait."""
        return self._client.answer(message.reply, payload)

    async def ack(self, message: Message, timeout: float) -> None:
        """Ack, and wait until the server confirms it.

        Raises:
            Unavailable: no confirmation; the event may come again.
        """
        try:
            answer = await self._client.request(message.reply, jetstream.ACK, timeout=timeout)
        except Broken as error:
            raise Unavailable("the ack was not confirmed: the connection broke") from error
        if answer.status:
            # A server that shuts down ends JetStream first: nothing in it takes the ack any more.
            raise Unavailable(f"the ack was not confirmed: {answer.status} {answer.description}")

    async def last(self, stream: str, subject: str, timeout: float) -> bytes | None:
        """The newest message of a subject, None without one.

        Raises:
            Unavailable: no answer.
        """
        newest = await self._last(stream, subject, timeout)
        return None if newest is None else newest.data

    async def number(self, stream: str, subject: str, timeout: float) -> int:
        """The number that a subject holds, as `add` counts it; zero without one.

        Raises:
            Unavailable: no answer.
        """
        newest = await self._last(stream, subject, timeout)
        return 0 if newest is None else _number(newest.data)

    async def add(self, stream: str, subject: str, number: int, timeout: float) -> None:
        """Add to the number that a subject holds; as `change`."""
        await self.change(stream, subject, lambda before: b"%d" % (_number(before) + number), timeout)

    async def change(self, stream: str, subject: str, changed: Callable[[bytes], bytes], timeout: float) -> None:
        """Change the record of a subject exactly once, even if others change it at the same time.

        Args:
            changed: makes the new record from the present one, which is empty where there is none.

        Raises:
            Refused: the record can't be stored, or others were faster again and again.
            Unavailable: no answer; the record may have been changed.
        """
        for _ in range(ADD_TRIES):
            newest = await self._last(stream, subject, timeout)
            before, sequence = (b"", "0") if newest is None else (newest.data, newest.headers["nats-sequence"])
            headers = {EXPECTED_SEQUENCE: sequence, MSG_ID: secrets.token_hex(16)}
            try:
                await self.publish_aside(encoded(NatsMessage(subject, headers, changed(before))), timeout)
            except Overtaken:
                continue
            return
        raise Refused(f"{subject} was changed by others each of {ADD_TRIES} times", status=409)

    async def _last(self, stream: str, subject: str, timeout: float) -> Arrival | None:
        try:
            answer = await self._client.request(f"{PREFIX}DIRECT.GET.{stream}.{subject}", timeout=timeout)
        except Broken as error:
            raise Unavailable(f"the record {subject} could not be read: the connection broke") from error
        if answer.status == "404":
            return None
        if answer.status:
            raise Unavailable(f"the record {subject} could not be read: {answer.status} {answer.description}")
        return answer

    async def forget(self, stream: str, subject: str, timeout: float) -> None:
        """Delete the record of a subject, if there is one."""
        await self._api.call(f"STREAM.PURGE.{stream}", {"filter": subject}, timeout=timeout)

    async def hint(self, subject: str, data: bytes = b"") -> None:
        """Send a core NATS message; it is lost when nobody listens."""
        if self._client.connected:
            await self._client.publish(subject, data)

    async def stream_of(self, subject: str, timeout: float) -> str:
        """The stream that captures a subject; empty where none does. Raises as `JetStreamApi.call`."""
        found = await self._api.call("STREAM.NAMES", {"subject": subject}, timeout=timeout)
        return str(next(iter(found.get("streams") or ()), ""))

    async def no_room(self, subject: str, timeout: float) -> str:
        """The server's words, if it or the account has no room for any message; empty if it has.

        The server checks its room before it checks a message's time to live, and refuses a nonsensical one: so the
        question leaves nothing behind. A server before 2.11 does not know such times and stores the message.

        Args:
            subject: of an aside stream, which keeps one message of each subject.

        Raises:
            Unavailable, Refused: the server does not say.
        """
        try:
            answer = await self._client.request(subject, headers={TIME_TO_LIVE: "none"}, timeout=timeout)
        except Broken as error:
            raise Unavailable("the connection broke before the server said whether it has room") from error
        return no_room(answer.data)

    def _go_on(self, message: Encoded, past: _Past, done: OnPublished) -> None:
        """Go on as `publish` does, after a first try with an unknown outcome."""
        task = asyncio.ensure_future(self._publish(message, past, headroom=HEADROOM_BYTES))
        self._going_on.add(task)

        def ended(task: asyncio.Future[PubAck]) -> None:
            self._going_on.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, HeadraceError):
                done(error)
            elif error is not None:
                done(HeadraceError(repr(error)))
            elif not task.cancelled():
                done(task.result())

        task.add_done_callback(ended)

    async def _publish(self, message: Encoded, past: _Past, *, headroom: int) -> PubAck:
        loop = asyncio.get_running_loop()
        deadline, why, unsure = past.deadline or loop.time() + past.timeout, past.why, past.unsure
        subject = message.subject
        # Silence may mean that the channel does not exist: a subscriber to `>` takes the event and answers nothing.
        silent = past.unsure or self._captured.is_silent(subject)
        doubtful = past.deadline > 0 or silent
        while (left := deadline - loop.time()) > 0:
            if not self._client.connected:
                await self._client.ready(left)
            self._check(message, headroom)
            if doubtful:
                doubtful = False
                await self._captured.refuse_if_not(subject, deadline - loop.time(), silent=silent)
            try:
                answer = await self._client.request(
                    subject,
                    message.data,
                    headers=message.block or None,
                    timeout=min(deadline - loop.time(), TRY_SECONDS),
                )
            except (Broken, Unavailable) as error:
                doubtful, silent = not silent, True
                why, unsure = str(error), True
                await asyncio.sleep(0)
                continue
            if answer.status == "503":
                await self._captured.refuse_if_not(subject, deadline - loop.time(), silent=False)
                why = "JetStream has no leader for the stream, or is not ready"
                await asyncio.sleep(min(PAUSE_SECONDS, max(0.0, deadline - loop.time())))
                continue
            self._captured.answers(subject)
            ack = pub_ack(answer.data, subject)
            return ack._replace(unsure=True) if unsure and ack.duplicate else ack
        raise Unavailable(f"the event was not stored for sure within {past.timeout:.1f} s: {why}")

    def _check(self, message: Encoded, headroom: int) -> None:
        limit = self._client.max_payload - headroom
        size = message.size
        if size > limit:
            raise Refused(f"{size} bytes exceed the limit of {limit} (the server's max_payload less room)", status=413)


def _number(data: bytes) -> int:
    """The count so far; 0 for a damaged one."""
    return int(data) if data.isdigit() and len(data) < _MOST_DIGITS else 0
