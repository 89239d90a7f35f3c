"""One inbox into which a lease pulls, one pull request at a time.

NATS can't cancel a pull: messages may come until the request expires, so the inbox stays open until then and hands on
every arrival, wanted or not. No client repeats a pull after a reconnect, so a broken connection ends the open pull here
and the lease asks again. After a move to another connection the inbox is a new one: what the former server has sent
already still comes, and nothing comes over both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from headrace.core.errors import Unavailable
from headrace.core.fast import new_object, new_tuple
from headrace.core.nats.jetstream import Message, ack_tokens, shared_tokens
from headrace.core.nats.nats_wire import Arrival, Headers, PullRun
from headrace.core.nats.pull_status import PullEnd, PullLimits, pull_end, told_left, told_limits
from headrace.io.jetstream.pin import Pin
from headrace.io.nats.client import Client, NatsSubscription
from headrace.io.process import log

OnMessage = Callable[[Message], None]
OnEnd = Callable[[PullEnd], None]

# So long after its expiry a pull without a status counts as lost: the server's own timer runs late under load.
OVERDUE_SECONDS = 1.0
CONNECT_SECONDS = 1.0

_log = log.get("pull")


class PullInbox:
    """A subscription for the answers to the pulls of one consumer.

    Attributes:
        on_message: called for each message, also after its pull has ended.
        on_end: called once per pull.
        said: why the latest pull ended, in words; empty when it ended well.
        pin: of a by-key consumer, which serves one inbox at a time.
    """

    def __init__(
        self,
        client: Client,
        stream: str,
        consumer: str,
        on_message: OnMessage,
        on_end: OnEnd,
        pin: Pin | None = None,
    ) -> None:
        self._client = client
        self._pin = pin
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._consumer = consumer
        self._on_message = on_message
        self._on_end = on_end
        # The inbox of the latest pull.
        self._inbox = ""
        self._subscription: NatsSubscription | None = None
        self._serial = 0
        self._remaining = 0
        self._ends_as = PullEnd.FILLED
        self._limits = PullLimits()
        self.said = ""
        self._overdue: asyncio.TimerHandle | None = None
        # The common beginning of all ack subjects of this inbox: they belong to one consumer.
        self._common: tuple[bytes, str, str] | None = None

    @property
    def pulling(self) -> bool:
        """Is a pull open?"""
        return self._overdue is not None

    @property
    def most_bytes(self) -> int:
        """The bytes that the server lets one pull ask for; 0 while it has not said so."""
        return self._limits.max_bytes

    async def open(self) -> None:
        """Raises:
        Unavailable: NATS is away.
        """
        await self._client.ready(CONNECT_SECONDS)
        self._subscription = await self._client.subscribe_inbox(self._on_arrival, self._on_pull_run)
        self._client.on_disconnect.append(self._on_disconnect)

    async def pull(self, batch: int, expires: timedelta, max_bytes: int) -> None:
        """Ask for up to `batch` messages of `max_bytes` in all; the server waits at most `expires` for them.

        The request stays within the limits that the server has named.

        Raises:
            Unavailable: the request could not be sent.
        """
        batch, expires, max_bytes = self._limits.within(batch, expires, max_bytes)
        seconds = expires.total_seconds()
        self.said = ""
        self._serial += 1
        if self._subscription is not None:
            self._inbox = self._subscription.inbox
        self._remaining, self._ends_as = batch, PullEnd.FILLED
        self._overdue = asyncio.get_running_loop().call_later(seconds + OVERDUE_SECONDS, self._on_silence)
        more = self._pin.pull_fields if self._pin is not None else b""
        request = b'{"batch":%d,"expires":%d,"max_bytes":%d%b}' % (batch, int(seconds * 1e9), max_bytes, more)
        try:
            await self._client.publish(self._subject, request, reply=f"{self._inbox}.{self._serial}")
        except Unavailable:
            self._clear()
            raise

    async def stop(self) -> None:
        """Ask for nothing more: without a listener the server gives the open pull up (ADR 008).

        Messages that are on their way arrive before this returns.
        """
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.drain(CONNECT_SECONDS)
        self._end(PullEnd.EXPIRED)

    async def close(self) -> None:
        """Stop listening. The server redelivers the messages of a still open pull after the ack wait."""
        self._clear()
        if self._pin is not None:
            await self._pin.give_up()
        if self._on_disconnect in self._client.on_disconnect:
            self._client.on_disconnect.remove(self._on_disconnect)
        if self._subscription is not None:
            await self._subscription.close()

    def _on_arrival(self, arrival: Arrival) -> None:
        tokens = ack_tokens(arrival.reply) if arrival.reply else None
        if tokens is None:
            self._on_status(arrival)
            return
        if self._pin is not None:
            self._pin.seen(arrival.headers, lambda: f"{self._inbox}.pin")
        self._hand_on(Message(arrival.subject, arrival.headers, arrival.data, arrival.reply, *tokens))

    def _on_pull_run(self, run: PullRun) -> None:
        """Messages of one subject that came together: only the parts that differ are parsed for each."""
        common = self._common
        if common is None:
            common = self._common = shared_tokens(run.replies[0])
        if common is None or self._pin is not None:
            for arrival in run.arrivals():
                self._on_arrival(arrival)
            return
        prefix, stream, consumer = common
        after = len(prefix)
        for reply, block, data in zip(run.replies, run.blocks, run.payloads, strict=True):
            try:
                if not reply.startswith(prefix):
                    raise ValueError
                # The rest is the number of pending messages, and any fields of a later server.
                delivered, sequence, delivery, stamp, _ = reply[after:].split(b".", 4)
                numbers = int(delivered), int(sequence), int(stamp), int(delivery)
                text = reply.decode()
            except ValueError:
                self._on_arrival(Arrival(run.subject, reply.decode("utf-8", "surrogateescape"), Headers(block), data))
                continue
            headers = new_object(Headers)
            headers.block = block
            self._hand_on(new_tuple(Message, (run.subject, headers, data, text, stream, consumer, *numbers)))

    def _hand_on(self, message: Message) -> None:
        self._remaining -= 1
        try:
            self._on_message(message)
        except Exception as error:  # noqa: BLE001  # one faulty message must not cost the others of its burst
            words = {"message": "a pulled message found a fault", "exception": error}
            asyncio.get_running_loop().call_exception_handler(words)
        if self._remaining <= 0:
            self._client.note_answer(came=True)
            self._end(self._ends_as)

    def _on_status(self, arrival: Arrival) -> None:
        if arrival.status != "503":
            self._client.note_answer(came=True)
        end = pull_end(arrival.status, arrival.description)
        if end is PullEnd.OUSTED and self._pin is not None:
            # The status answers a pull or a renewal of the pin; either way another lease has the consumer now.
            self._pin.lost()
            self._clear()
            self._on_end(end)
            return
        if arrival.subject != f"{self._inbox}.{self._serial}":
            return
        if end is PullEnd.LIMITED:
            limits = self._limits.and_also(told_limits(arrival.description))
            # A pull that is refused within the known limits is refused for good.
            end = PullEnd.REFUSED if limits == self._limits else end
            self._limits = limits
        if end in (PullEnd.FILLED, PullEnd.EXPIRED) and (left := told_left(arrival.headers)) < self._remaining:
            # Of a replicated consumer the status overtakes messages, which wait until the other replicas know of them.
            self._remaining, self._ends_as = self._remaining - left, end
            return
        if end in (PullEnd.BROKEN, PullEnd.LIMITED, PullEnd.REFUSED):
            self.said = f"{arrival.status} {arrival.description}".strip()
            _log.debug("pull ended", consumer=self._consumer, end=str(end.value), said=self.said)
        if end is not None:
            self._end(end)

    def _on_silence(self) -> None:
        self.said = "the server did not say that its time was up"
        self._client.note_answer(came=False)
        self._end(PullEnd.BROKEN)

    def _on_disconnect(self) -> None:
        self.said = "the connection broke"
        self._end(PullEnd.BROKEN)

    def _end(self, end: PullEnd) -> None:
        if self._overdue is not None:
            self._clear()
            self._on_end(end)

    def _clear(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
