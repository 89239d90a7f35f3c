"""The short way of an event: from the pull's callback to the socket, and from the answer's callback to the ack.

Nearly every event takes it: stored by `headrace.receive`, delivered for the first time, POSTed on a connection that is
open already, and done with the answer. All others take `one_event`'s way, from the step at which this one declines
(ADR 017). On both ways `headrace.core.delivery.delivery` judges the answer.

`lease` calls it for each message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from headrace.core.delivery.delivery import completes
from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.stage_record import Stage
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.event.delivery_claim import CLAIM, HOPS, MOST_HOPS, beginning
from headrace.core.event.posted_lines import PostedLines
from headrace.core.http import HttpAnswer
from headrace.core.nats import jetstream
from headrace.core.nats.jetstream import Message
from headrace.core.nats.nats_wire import Headers
from headrace.forward.ports import Effects, Sending, ShortEffects

# Bytes of the longest body of an answer that is kept.
_REMEMBERED = 512

Over: TypeAlias = "Callable[[Handover, HttpAnswer | None], None]"
"""Called when the short way of an event ends: with None when it is settled, else with the answer to judge it by."""


class ShortWay:
    """The short way to one subscriber."""

    def __init__(self, subscriber: Subscriber, effects: Effects, short: ShortEffects, tally: Tally, over: Over) -> None:
        self.subscriber = subscriber
        self.effects = effects
        self.short = short
        self.tally = tally
        self.over = over
        self._lines = PostedLines()
        self._claim = b""
        # The last answer that completed a delivery: most answers are that one again.
        self.completing: HttpAnswer | None = None

    def begin(self, message: Message) -> Handover | None:
        """POST a message that has just come; None: nothing has happened, and it must go the long way."""
        headers = message.headers
        # A redelivery may have a stage record, and messages of other clients have no block.
        if message.delivered != 1 or type(headers) is not Headers:
            return None
        read = self._lines.of(headers.block)
        if read is None or read[1] >= MOST_HOPS:
            return None
        handover = Handover(self, message)
        lines = read[0] + self._delivery_lines(message, read[1])
        sending = self.short.send(lines, message.data, handover.answered)
        if sending is None:
            return None
        handover.sending = sending
        self.effects.hold(message)
        return handover

    def _delivery_lines(self, message: Message, hops: int) -> bytes:
        """The lines that tell a channel which delivery this is, as in `one_event`."""
        begin = self._claim
        if not begin:
            assert self.subscriber.subscriber is not None, "else there is no short way"
            uri = self.subscriber.subscriber.uri
            begin = self._claim = beginning(message.stream, message.consumer, Stage.SUBSCRIBER, uri)
        claim = self.effects.claims.of(begin, message.sequence, message.timestamp_ns)
        if not claim:
            return b"%b: %d\r\n" % (HOPS, hops + 1)
        return b"%b: %d\r\n%b: %b\r\n" % (HOPS, hops + 1, CLAIM, claim)


class Handover:
    """One event on the short way; it is in the subscriber's hands."""

    __slots__ = ("_way", "message", "sending")

    def __init__(self, way: ShortWay, message: Message) -> None:
        self._way = way
        self.message = message
        self.sending: Sending

    def cancel(self) -> None:
        """The lease was cut off: leave the message unsettled."""
        self._way.effects.release(self.message)
        self.sending.cancel()

    def answered(self, answer: HttpAnswer) -> None:
        try:
            completed = self._completed(answer)
        except Exception:  # noqa: BLE001  # the long way meets it again and reports it; the lease must not wait for ever
            completed = False
        self._way.over(self, None if completed else answer)

    def _completed(self, answer: HttpAnswer) -> bool:
        """Ack and count the event, if nothing else is to do."""
        way, message = self._way, self.message
        if answer is not way.completing:
            if not completes(answer, way.subscriber):
                return False
            # Answers are remembered while they are short (`headrace.io.http.answer`), so this holds no large one.
            way.completing = answer if len(answer.body) <= _REMEMBERED else None
        if not way.short.settle(message, jetstream.ACK):
            return False
        way.effects.release(message)
        way.tally.counts[Outcome.DELIVERED] += 1
        way.effects.report(Outcome.DELIVERED, message, "")
        return True
