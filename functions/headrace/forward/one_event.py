"""The delivery of one event: read its stage record, POST, decide, store the record, settle; in that order.

It settles last, and only when the event's fate is final or its next attempt is on record: a crash anywhere in between
costs a duplicate at most.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

from headrace.core.delivery import delivery, parked, stage_record
from headrace.core.delivery.delivery import Ack, Answer, DeadLetter, Decision, Nak, Park, Reply
from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.stage_record import Stage, StageRecord
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.errors import InvalidEvent, Refused, Unavailable
from headrace.core.event import delivery_claim, http_codec, nats_codec
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats import jetstream
from headrace.core.nats.jetstream import Message
from headrace.forward.ports import Effects
from headrace.forward.reading import event_in, words

# The least wait of an event that can't be parked because the aside stream is full or the event too large for it.
LEAST_STUCK_WAIT = timedelta(seconds=30)
# An event that waits for another of its key comes back this much later at the most.
BEHIND_ANOTHER = timedelta(seconds=5)
# The next lease has another token by then.
OUTDATED_WAIT = timedelta(seconds=1)
# Server and process clocks differ a little: an event that comes at most this early is delivered and not given back.
EARLY = timedelta(milliseconds=100)


async def deliver(
    message: Message, subscriber: Subscriber, effects: Effects, tally: Tally, key: str | None = None
) -> None:
    """Deliver one pulled message as far as it gets now, and settle it.

    Args:
        key: its order key: no later event of this key may overtake it. None: there is no order to keep.

    Raises:
        Unavailable: NATS went away in the middle; the message stays unsettled and comes again.
    """
    await _Delivery(message, subscriber, effects, tally, key).run()


async def judge(message: Message, subscriber: Subscriber, effects: Effects, tally: Tally, answered: HttpAnswer) -> None:
    """Go on from the answer to the first POST of a message that is delivered for the first time.

    Raises:
        Unavailable: as `deliver`.
    """
    await _Delivery(message, subscriber, effects, tally).judge(answered)


async def postpone(
    message: Message, subscriber: Subscriber, effects: Effects, tally: Tally, key: str | None, due: float
) -> None:
    """Give a message back untried: an earlier message of its key has to go first.

    Args:
        due: when the server is to bring it again, seconds since the epoch.

    Raises:
        Unavailable: as `deliver`.
    """
    await _Delivery(message, subscriber, effects, tally, key).postpone(due)


def closing_headers(subscriber: Subscriber, stage: Stage) -> Headers:
    """The last headers of every POST of a stage, whatever the event."""
    namespace = (b"kn-namespace", subscriber.namespace.encode())
    if stage is not Stage.SUBSCRIBER:
        return (namespace,)
    # Without it a server may compress its reply (RFC 9110, section 12.5.3), and a compressed reply is refused.
    coding = ((b"accept-encoding", b"identity"),) if subscriber.reply is not None else ()
    return (namespace, (b"prefer", b"reply"), *coding)


@dataclass(slots=True)
class _Delivery:
    message: Message
    subscriber: Subscriber
    effects: Effects
    tally: Tally
    key: str | None = None
    # May there be a record that the event is stuck? It has to be deleted after the event is settled.
    stuck: bool = False

    async def run(self) -> None:
        # The event is back: a due time that this lease has noted for it holds no more.
        self.tally.due.pop(self.message.sequence, None)
        if parked.is_for_another(self.message):
            await self._ack()
            self.tally.count(Outcome.SKIPPED)
            return
        record = await self._record()
        if record.due is not None:
            early = self._ahead(record)
            if early > EARLY:
                # A restarted server or a broken lease brings the event before its back-off is over.
                await self._wait_on(record, early)
                return
        elif self.message.delivered > 1:
            self.tally.count(Outcome.REDELIVERED)
        stored = NatsMessage(self.message.subject, self.message.headers, self.message.data)
        passing = nats_codec.passthrough_of(stored)
        decision: Decision
        event = event_in(self.message)
        if (hops := delivery_claim.hops(self.message.headers)) >= delivery_claim.MOST_HOPS:
            # The event does not go to the dead letter sink either: that may be the loop.
            await self._park(record, delivery.loop(hops))
            return
        if isinstance(event, InvalidEvent):
            # The message claims to be an event and is none, so no subscriber could take it: it goes to the sink, or
            # aside.
            record = self._judged(record, event)
            event = nats_codec.foreign(stored, self.message.stream, self.message.sequence)
            decision = DeadLetter(record)
            if record.stage is not Stage.DEAD_LETTER:
                decision = delivery.give_up(record, self.subscriber)
        else:
            decision = await self._attempt(event, passing, record)
        await self._carry_on(decision, event, passing)

    async def judge(self, answered: HttpAnswer) -> None:
        event = event_in(self.message)
        if isinstance(event, InvalidEvent):
            # The short way has POSTed it, so this can't happen; the long way deals with it all the same.
            await self.run()
            return
        passing = nats_codec.passthrough_of(NatsMessage(self.message.subject, self.message.headers, self.message.data))
        await self._carry_on(self._decide(delivery.begin(self.subscriber), answered), event, passing)

    async def postpone(self, due: float) -> None:
        record = await self._record()
        due = max(due, (self.effects.now() + self._ahead(record)).timestamp() if record.due is not None else 0.0)
        # The record tells the next lease that this event waits; without it the take-over would wait for its return.
        wait = max(timedelta(), timedelta(seconds=due) - timedelta(seconds=self.effects.now().timestamp()))
        # The one ahead was put off by our clock: if that is set back since, its due time seems far away.
        wait = min(wait, max(LEAST_STUCK_WAIT, timedelta(seconds=self._most_wait(record))) + BEHIND_ANOTHER)
        with suppress(Refused):
            await self._remember(record, wait)
        await self._nak(wait)
        self.tally.count(Outcome.POSTPONED)

    async def _carry_on(self, decision: Decision, event: Event, passing: Headers) -> None:
        while True:
            match decision:
                case Reply(record) | DeadLetter(record):
                    decision = await self._attempt(event, passing, record)
                case Ack(record):
                    await self._complete(record)
                    return
                case Nak(delay, record):
                    await self._try_later(delay, record)
                    return
                case Park(record, reason):
                    await self._park(record, reason)
                    return
                case _:
                    assert_never(decision)

    async def _attempt(self, event: Event, passing: Headers, record: StageRecord) -> Decision:
        """POST for the record's stage; a stage whose address has since been removed is over."""
        destination = delivery.destination(self.subscriber, record.stage)
        if destination is None:
            match record.stage:
                case Stage.SUBSCRIBER:
                    return Reply(replace(record, stage=Stage.REPLY))
                case Stage.REPLY:
                    return Ack(replace(record, stage=Stage.SUBSCRIBER))
                case Stage.DEAD_LETTER:
                    return delivery.give_up(record, self.subscriber)
        if self.effects.shown.withheld(destination, record.outdated):
            return Nak(OUTDATED_WAIT, record)
        try:
            answered = await self._post(destination, event, passing, record)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  # or the event would come again without end, its budget untouched
            answered = HttpAnswer(None, error=words(error))
        return self._decide(record, answered)

    def _decide(self, record: StageRecord, answered: HttpAnswer) -> Decision:
        try:
            replies = delivery.may_reply(record, self.subscriber)
            answer = delivery.read_answer(answered, self.effects.now(), replies=replies)
            if (body := self.effects.shown.hidden(answer.body)) is not answer.body:
                answer = replace(answer, body=body)
            if answer.status == delivery.UNAUTHENTICATED:
                answer = self._refused(record, answer)
        except Exception as error:  # noqa: BLE001  # as above
            answer = Answer(None, error=words(error))
        return delivery.decide(record, answer, self.subscriber)

    def _refused(self, record: StageRecord, answer: Answer) -> Answer:
        """The answer 401, which may be about an outdated token only."""
        to, shown = delivery.destination(self.subscriber, record.stage), self.effects.shown
        return replace(answer, outdated=shown.mark(to)) if to is not None and shown.refused(to) else answer

    async def _post(self, destination: Destination, event: Event, passing: Headers, record: StageRecord) -> HttpAnswer:
        if record.reply is not None:
            # The answer's own count of hops is ignored: the reply has come as far as the event.
            passing = tuple(one for one in record.reply_headers if one[0] != delivery_claim.HOPS)
        write = http_codec.to_structured if self.subscriber.structured else http_codec.to_http
        sent = write(self._outgoing(event, record))
        delivery_headers = self._delivery_headers(destination, record.stage)
        headers = sent.headers + passing + delivery_headers + closing_headers(self.subscriber, record.stage)
        return await self.effects.post(destination, headers, sent.body, self.subscriber.policy.timeout)

    def _delivery_headers(self, destination: Destination, stage: Stage) -> Headers:
        """The headers that tell a channel which delivery this is, and how many hops the event has behind it."""
        message = self.message
        hops = (delivery_claim.HOPS, b"%d" % (delivery_claim.hops(message.headers) + 1))
        begin = delivery_claim.beginning(message.stream, message.consumer, stage, destination.uri)
        claim = self.effects.claims.of(begin, message.sequence, message.timestamp_ns)
        return (hops, (delivery_claim.CLAIM, claim)) if claim else (hops,)

    @staticmethod
    def _outgoing(event: Event, record: StageRecord) -> Event:
        match record.stage:
            case Stage.SUBSCRIBER:
                return event
            case Stage.REPLY:
                return record.reply or event
            case Stage.DEAD_LETTER:
                return event.with_attributes(record.failure.extensions() if record.failure else {})

    def _judged(self, record: StageRecord, error: InvalidEvent) -> StageRecord:
        address = self.subscriber.subscriber or self.subscriber.reply
        return delivery.invalid(address.uri if address else "", error, record)

    async def _record(self) -> StageRecord:
        fresh = delivery.begin(self.subscriber)
        if self.message.delivered == 1:
            return fresh
        data = await self.effects.load(self._stage_subject)
        record = stage_record.from_json(data) if data else None
        self.stuck = record is None or record.stuck
        return record or fresh

    @property
    def _stage_subject(self) -> str:
        return self.subscriber.names.stage_subject(self.message.consumer, self.message.sequence)

    @property
    def _stuck_subject(self) -> str:
        return self.subscriber.names.stuck_subject(self.message.consumer, self.message.sequence)

    async def _complete(self, record: StageRecord) -> None:
        await self._ack()
        match record.stage:
            case Stage.DEAD_LETTER:
                self.tally.sunk = delivery.cause(record)
                self._report(Outcome.DEAD_LETTERED, record.last)
            case Stage.REPLY if record.reply is not None:
                self.tally.count(Outcome.REPLIED)
                self._report(Outcome.DELIVERED, "with a reply")
            case _:
                self._report(Outcome.DELIVERED, "")

    async def _ack(self) -> None:
        if self.message.delivered == 1 and self.key is None:
            await self.effects.settle(self.message, jetstream.ACK)
            return
        # The ack is confirmed before the record is deleted, or the event could come again with a full budget. With a
        # key it is always confirmed, or the event could come again behind later ones.
        await self.effects.ack(self.message)
        if self.message.delivered == 1:
            return
        with suppress(Refused, Unavailable):
            await self.effects.drop(self._stage_subject)
            if self.stuck:
                await self.effects.drop(self._stuck_subject)

    def _ahead(self, record: StageRecord) -> timedelta:
        """How long the event still has to wait by its record and our clock."""
        most = self._most_wait(record)
        return timedelta(seconds=stage_record.ahead(record, self.effects.now().timestamp(), most))

    def _most_wait(self, record: StageRecord) -> float:
        """The longest wait that the policy allows, in seconds."""
        policy = self.subscriber.policy
        allowed = max(LEAST_STUCK_WAIT if record.stuck else timedelta(), policy.longest_wait, policy.retry_after_max)
        return allowed.total_seconds()

    async def _wait_on(self, record: StageRecord, early: timedelta) -> None:
        """Give the event back until its time has come."""
        skew = stage_record.skew(record, self.effects.now().timestamp(), self._most_wait(record))
        if skew > EARLY.total_seconds():
            # The record's writer has a clock ahead of ours, and the event would wait longer by the difference: now it
            # waits by our clock.
            self.tally.skew = max(self.tally.skew, skew)
            with suppress(Refused):
                await self._remember(record, early)
        await self._nak(early)

    async def _try_later(self, delay: timedelta, record: StageRecord) -> None:
        try:
            await self._remember(record, delay)
        except Refused as error:
            # The record is too large with its reply, or there is no room: the event is safe, its budget begins anew.
            self._report(Outcome.STUCK, f"its stage record could not be stored: {error}")
        await self._nak(delay)
        self._report(Outcome.RETRIED, record.last)

    async def _remember(self, record: StageRecord, wait: timedelta) -> None:
        due = (self.effects.now() + wait).timestamp()
        stored = stage_record.to_json(replace(record, due=due, wait=wait.total_seconds(), key=self.key))
        await self.effects.store(self._stage_subject, stored)

    async def _nak(self, delay: timedelta) -> None:
        self.tally.due[self.message.sequence] = (self.effects.now() + delay).timestamp()
        await self.effects.settle(self.message, jetstream.nak(delay))

    async def _park(self, record: StageRecord, reason: str) -> None:
        try:
            await self._keep_aside(record, reason)
        except Refused as error:
            self._report(Outcome.STUCK, f"{reason}; it can't be parked: {error}")
            await self._stay(record)
            return
        await self._ack()
        self._report(Outcome.PARKED, reason)

    async def _keep_aside(self, record: StageRecord, reason: str) -> None:
        try:
            await self.effects.park(parked.parked_message(self.message, record, reason, self.subscriber))
        except Refused as error:
            if error.status != 413:
                raise
            # Without the subscriber's answer the copy may fit: a long answer must not make an event stuck.
            slim = parked.parked_message(self.message, record, reason, self.subscriber, answer=False)
            await self.effects.park(slim)

    async def _stay(self, record: StageRecord) -> None:
        """Leave the event in the stream; from now on it gets one attempt at a time, at the longest back-off."""
        wait = max(LEAST_STUCK_WAIT, self.subscriber.policy.longest_wait)
        # Without room for these records the budget begins anew, and the condition AsideStreamHasRoom says why.
        with suppress(Refused):
            await self.effects.store(self._stuck_subject, b"")
            await self._remember(replace(record, stuck=True), wait)
        await self._nak(wait)

    def _report(self, outcome: Outcome, why: str) -> None:
        self.tally.count(outcome)
        self.effects.report(outcome, self.message, why)
