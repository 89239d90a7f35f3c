"""A parked event: a copy of its message, with headers that say where it came from and why it is parked.

Pure. The copy keeps every byte of the data and every header that can be written, so that a replay is the event itself;
our own headers, `Headrace-…`, come before them. Written by `headrace.forward`, read back and replayed by
`headrace.io.jetstream.aside`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from headrace.core.delivery.stage_record import StageRecord
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import InvalidEvent
from headrace.core.event import nats_codec
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import FOREIGN_TYPE, MSG_ID, NatsMessage
from headrace.core.event.uri import without_query
from headrace.core.nats.jetstream import Message
from headrace.core.nats.nats_wire import can_carry

ORIGIN_STREAM = "Headrace-Origin-Stream"
ORIGIN_SEQUENCE = "Headrace-Origin-Sequence"
ORIGIN_SUBJECT = "Headrace-Origin-Subject"
CONSUMER = "Headrace-Consumer"
SUBSCRIPTION = "Headrace-Subscription"
DESTINATION = "Headrace-Destination"
STATUS = "Headrace-Status"
UNANSWERED = "Headrace-Unanswered"
ATTEMPTS = "Headrace-Attempts"
REASON = "Headrace-Reason"
ANSWER = "Headrace-Answer"
ANSWER_TYPE = "Headrace-Answer-Type"
DROPPED = "Headrace-Dropped-Headers"

ONLY = "Headrace-Only"
"""Names the only consumer that a message in a channel's stream is for; all others pass over it (ADR 014)."""
_ONLY = ONLY.lower()
EXPECTED_STREAM = "Nats-Expected-Stream"

KNOWN_THERE = (
    "the channel at that address has an event of the same source and id, and delivers it no more within its duplicate "
    "window: replay to the channel by its name, with --to-channel, which counts as new"
)

# Characters of a reason: with our other headers it must fit into the headroom that events leave.
LONGEST_TEXT = 1024
_OURS = ("nats-", "headrace-")


@dataclass(frozen=True, slots=True)
class Parked:
    """One parked event, as it was read back.

    Attributes:
        position: its sequence in the aside stream, by which it is shown, replayed and discarded.
        parked_at: with its timezone.
        stream, sequence, subject: where it lay in the channel.
        consumer, subscription: the ones that did not get it; the latter as `namespace/name`.
        attempts: failed ones, over all stages.
        destination, status: the URI that failed, and the HTTP status (500 for none); None when nothing was sent.
        answered: whether the status came in an answer.
        answer: the beginning of the answer, or of the reason why there was none; `answer_type` its content type.
        headers: the event's own, names in lower case.
        data: its bytes; empty in a list, where only `size` is known.
        dropped: how many headers of a stranger's message are missing, since no header line can carry them.
    """

    position: int
    parked_at: datetime
    stream: str
    sequence: int
    subject: str
    consumer: str
    subscription: str
    attempts: int
    reason: str
    destination: str | None
    status: int | None
    headers: Mapping[str, str]
    data: bytes
    size: int
    dropped: int = 0
    answer: bytes = b""
    answer_type: str = ""
    answered: bool = True

    @property
    def event(self) -> Event:
        """The event as its subscriber would get it; a faulty one as a foreign event with its bytes."""
        return self._claimed or nats_codec.foreign(self._stored, self.stream, self.sequence)

    @property
    def foreign(self) -> bool:
        """Was it published by a stranger, not as an event, so that its stream and sequence are its identity?"""
        claimed = self._claimed
        return claimed is not None and claimed.type == FOREIGN_TYPE and "ce-type" not in self.headers

    @property
    def passing(self) -> tuple[tuple[bytes, bytes], ...]:
        """The headers that go with it to any receiver."""
        return nats_codec.passthrough_of(self._stored)

    @property
    def _claimed(self) -> Event | None:
        """The event that its bytes claim to be; None when that is faulty."""
        try:
            return nats_codec.from_nats(self._stored, stream=self.stream, sequence=self.sequence)
        except InvalidEvent:
            return None

    @property
    def _stored(self) -> NatsMessage:
        return NatsMessage(self.subject, self.headers, self.data)


@dataclass(frozen=True, slots=True)
class ParkedFilter:
    """Selects parked events; an empty filter selects all of them.

    Attributes:
        subscription: `namespace/name`.
        since, until: when they were parked, both included.
        reason: a part of the reason, upper and lower case alike.
    """

    subscription: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    reason: str = ""

    def matches(self, parked: Parked) -> bool:
        return (
            self.subscription in (None, parked.subscription)
            and (self.since is None or parked.parked_at >= self.since)
            and (self.until is None or parked.parked_at <= self.until)
            and self.reason.lower() in parked.reason.lower()
        )


def parked_message(
    message: Message, record: StageRecord, reason: str, subscriber: Subscriber, *, answer: bool = True
) -> NatsMessage:
    """The message to publish to the aside stream; any message at all can be kept there.

    Args:
        answer: whether to keep the other side's answer, up to 1024 bytes of base64.
    """
    failure = record.failure
    own = _own(message.headers)
    carried = {name: value for name, value in own.items() if can_carry(name, value)}
    ours = {
        # The origin, so that parking the same delivery twice stores it once.
        MSG_ID: f"{message.stream}:{message.sequence}:{message.timestamp_ns}:{message.consumer}",
        ORIGIN_STREAM: message.stream,
        ORIGIN_SEQUENCE: str(message.sequence),
        # NATS takes a NUL in a subject, and no header may hold one.
        ORIGIN_SUBJECT: message.subject.replace("\0", "\ufffd"),
        CONSUMER: message.consumer,
        SUBSCRIPTION: _one_line(subscriber.full_name),
        ATTEMPTS: str(sum(record.attempts)),
        REASON: _one_line(reason),
    }
    if failure is not None:
        ours[DESTINATION] = _one_line(without_query(failure.destination))
        ours[STATUS] = str(failure.code)
        if not failure.answered:
            ours[UNANSWERED] = "true"
        if answer and failure.data and len(failure.data) <= LONGEST_TEXT:
            ours |= {ANSWER: failure.data, ANSWER_TYPE: _one_line(failure.content_type)}
    if len(carried) < len(own):
        ours[DROPPED] = str(len(own) - len(carried))
    subject = subscriber.names.parked_subject(message.consumer, message.sequence, message.timestamp_ns)
    return NatsMessage(subject, {**ours, **carried}, message.data)


def parse(position: int, parked_at: datetime, headers: Mapping[str, str], data: bytes, size: int) -> Parked | None:
    """The inverse of `parked_message`; None for a message that it did not make.

    Args:
        headers: names in lower case.
    """
    try:
        status = headers.get(STATUS.lower())
        return Parked(
            position=position,
            parked_at=parked_at,
            stream=headers[ORIGIN_STREAM.lower()],
            sequence=int(headers[ORIGIN_SEQUENCE.lower()]),
            subject=headers[ORIGIN_SUBJECT.lower()],
            consumer=headers[CONSUMER.lower()],
            subscription=headers[SUBSCRIPTION.lower()],
            attempts=int(headers[ATTEMPTS.lower()]),
            reason=headers[REASON.lower()],
            destination=headers.get(DESTINATION.lower()),
            status=None if status is None else int(status),
            headers=_own(headers),
            data=data,
            size=size,
            dropped=int(headers.get(DROPPED.lower(), 0)),
            answer=_decoded(headers.get(ANSWER.lower(), "")),
            answer_type=headers.get(ANSWER_TYPE.lower(), ""),
            answered=UNANSWERED.lower() not in headers,
        )
    except (KeyError, ValueError):
        return None


def replay(parked: Parked, run: str, subject: str) -> NatsMessage:
    """The message that brings a parked event to every consumer of a channel's subject.

    The event keeps its source, id and bytes. Only the server's deduplication must not know it again, so the
    `Nats-Msg-Id` carries the run and the position, since one run may replay an event that two subscribers missed.

    Args:
        run: the same again after a failure, so that no event is stored twice.
    """
    event = parked.event
    headers = dict(parked.headers)
    if parked.foreign:
        # Its identity comes from stream and sequence, which the replay changes: so it is written out.
        headers = dict(nats_codec.to_binary(event, subject, parked.passing).headers)
    headers[MSG_ID] = f"{nats_codec.msg_id(event.source, event.id)}:replay:{run}:{parked.position}"
    return NatsMessage(subject, headers, parked.data)


def replay_for(parked: Parked, run: str, consumer: str, subject: str = "") -> NatsMessage:
    """The message that brings a parked event back to one consumer of its stream, and to no other.

    Args:
        subject: where to publish it; empty for the subject that it lay on.
    """
    message = replay(parked, run, subject or parked.subject)
    return NatsMessage(
        message.subject, {**message.headers, ONLY: consumer, EXPECTED_STREAM: parked.stream}, message.data
    )


def is_for_another(message: Message) -> bool:
    """Whether a message of the stream is a replay for one consumer other than the one that pulled it."""
    return message.headers.get(_ONLY, message.consumer) != message.consumer


def _decoded(answer: str) -> bytes:
    """The answer's bytes; empty when the header was damaged, since the event is what counts."""
    try:
        return base64.b64decode(answer, validate=True)
    except ValueError:
        return b""


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if not name.lower().startswith(_OURS)}


def _one_line(text: str) -> str:
    """Printable ASCII on one line: a NATS header carries no more."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    return flat.encode("ascii", "backslashreplace").decode()[:LONGEST_TEXT].strip()
