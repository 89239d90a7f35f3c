"""How one delivery goes on after an answer, or after silence.

Knows HTTP statuses, attempt counts and Knative's delivery rules. Does not know NATS, sockets or clocks.
Called by `headrace.forward` once per POST.

A delivery has up to three stages, each with a budget of 1 + retry of its own (ADR 007; one more where
the last may never have been read, ADR 057):

    SUBSCRIBER ──2xx with an event, reply address──▶ REPLY ──2xx──▶ done
        └──────────────── failed for good ────────────┴──▶ DEAD_LETTER ──2xx──▶ done
                                                               └──failed for good, or no sink──▶ parked
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from headrace.core.delivery import broker_filter
from headrace.core.delivery.stage_record import Stage, StageFailure, StageRecord
from headrace.core.delivery.subscriber import DeliveryPolicy, Destination, Subscriber
from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec, uri
from headrace.core.event.delivery_claim import DUPLICATE, OF_DELIVERY
from headrace.core.event.event import Event
from headrace.core.http import Headers, HttpAnswer
from headrace.core.plural import counted

# 1xx and 3xx are errors without retry; other 2xx are success; a status outside the table is retried.
# Source: Knative eventing data plane, table of response codes.
RETRYABLE_4XX = frozenset({404, 408, 409, 429})
UNAUTHENTICATED = 401
# Knative's reference implementation reports a failed connection to the sink as status 500 ...
NO_ANSWER_CODE = 500
# ... and begins its knativeerrordata with this. It tells the sink only: a subscriber may answer the same words.
NO_ANSWER = b"dispatch error: "
# The extension's 1024 characters of base64 are exactly this many bytes; encoding more than fits is what kills the
# reference dispatcher (knative/eventing at 8cf4c4b6).
ERROR_DATA_BYTES = 768
# A media type with its parameters is far shorter.
_LONGEST_CONTENT_TYPE = 128
# The statuses whose Retry-After is honoured, and those whose body may be a reply event: never that of a 202, which
# Knative's data plane forbids to treat as one.
_MAY_ASK = (429, 503)
_MAY_REPLY = frozenset(range(200, 300)) - {202}
# A longer Retry-After is a mistake of the sender.
_LONGEST_ASKED = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one POST.

    Attributes:
        status: of the HTTP answer; None when there was none (refused, reset, timed out).
        body: its beginning, for the dead letter extension.
        content_type: of the body, in printable ASCII; empty when the answer names none.
        retry_after: the wait that the answer asks for; read for 429 and 503 only.
        error: why there was no answer, in words.
        stale: there was none on a connection that had been kept: perhaps the POST was never read.
        reply, reply_headers: the event in a 2xx answer, and its pass-through headers.
        unfit: the answer carries an event that can't be handed on: the status that refuses such an event, and why.
        outdated: the name of the token that was shown, where it is refused and was not a fresh one; else empty.
        known_before: a channel says that it had the event before, and not that it had it by this very delivery.
    """

    status: int | None
    body: bytes = b""
    content_type: str = ""
    retry_after: timedelta | None = None
    error: str = ""
    stale: bool = False
    reply: Event | None = None
    reply_headers: Headers = ()
    unfit: tuple[int, str] | None = None
    outdated: str = ""
    known_before: bool = False


@dataclass(frozen=True, slots=True)
class Ack:
    """The delivery is complete; the record tells in which stage it ended."""

    record: StageRecord


@dataclass(frozen=True, slots=True)
class Nak:
    """Try this stage again after `delay`."""

    delay: timedelta
    record: StageRecord


@dataclass(frozen=True, slots=True)
class Reply:
    """The subscriber is done; POST its answer to the reply address now."""

    record: StageRecord


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The stage failed for good; POST the event to the dead letter sink now."""

    record: StageRecord


@dataclass(frozen=True, slots=True)
class Park:
    """There is nowhere left to deliver to: keep the event aside, with the reason."""

    record: StageRecord
    reason: str


Decision = Ack | Nak | Reply | DeadLetter | Park


def read_answer(answer: HttpAnswer, now: datetime, *, replies: bool) -> Answer:
    """What an HTTP answer says about a delivery; a body that is no event is no reply, whatever it is.

    Args:
        replies: is there anywhere to send a reply to? Otherwise none is looked for.
    """
    if answer.status is None:
        return Answer(None, error=uri.hidden(answer.error), stale=answer.stale)
    asked = answer.header(b"retry-after") if answer.status in _MAY_ASK else None
    after = retry_after(asked.decode("latin-1"), now) if asked is not None else None
    body, kind = answer.body[: broker_filter.LONGEST], _printable(answer.header(b"content-type") or b"")
    read = Answer(answer.status, body=body, content_type=kind, retry_after=after, known_before=known_before(answer))
    if not replies or answer.status not in _MAY_REPLY or not http_codec.is_event(answer.headers):
        return read
    if coding := http_codec.coding(answer.headers):
        return replace(read, unfit=(415, f"the reply event is compressed ({coding}): answer with it as it is"))
    if answer.truncated:
        return replace(read, unfit=(413, "the reply event is larger than we read"))
    try:
        reply = http_codec.from_http(http_codec.HttpMessage(answer.headers, answer.body))
    except InvalidEvent:
        return read
    return replace(read, reply=reply, reply_headers=http_codec.passthrough(answer.headers))


def completes(answer: HttpAnswer, subscriber: Subscriber) -> bool:
    """Does this answer to the first POST, the one to the subscriber, complete the delivery?

    A short way past `read_answer` and `decide`, for the answer that nearly every POST gets. Wherever it says yes, those
    two together decide `Ack`.
    """
    status = answer.status
    if status is None or not 200 <= status <= 299 or known_before(answer):
        return False
    return subscriber.reply is None or status not in _MAY_REPLY or not http_codec.is_event(answer.headers)


def begin(subscriber: Subscriber) -> StageRecord:
    """The record of an event that nobody has tried yet; a subscriber with only a reply address begins there."""
    return StageRecord(Stage.SUBSCRIBER if subscriber.subscriber else Stage.REPLY)


def decide(record: StageRecord, answer: Answer, subscriber: Subscriber) -> Decision:
    """Decide how a delivery goes on after one POST of its current stage.

    Args:
        record: how far the delivery had got before this POST.
        answer: the result of the POST.
        subscriber: its addresses and delivery policy.

    Source: Knative eventing data plane, table of response codes; ADR 007 and 012.
    """
    if answer.status is not None and 200 <= answer.status <= 299:
        if not answer.known_before:
            return _after_success(record, answer, subscriber)
        # The same POST would be known before again.
        return give_up(_failed(record, answer, subscriber), subscriber)
    record = replace(_failed(record, answer, subscriber), outdated=answer.outdated)
    count = record.attempts.of(record.stage)
    # An attempt that may never have been read counts, but it is not the one that ends a stage (ADR 057); nor is one
    # whose token was outdated: it says nothing of the event, and the next shows a fresh one (ADR 065).
    once_more = answer.stale or answer.outdated != ""
    if (retryable(answer.status) or answer.outdated) and count <= subscriber.policy.retry + once_more:
        return Nak(wait(subscriber.policy, count, answer), record)
    return give_up(record, subscriber)


def give_up(record: StageRecord, subscriber: Subscriber) -> DeadLetter | Park:
    """A stage is over without success: on to the sink, or aside when that was the sink or there is none."""
    if subscriber.dead_letter is None:
        return Park(record, f"no dead letter sink, and {record.last}")
    if record.stage is Stage.DEAD_LETTER:
        return Park(record, record.last)
    return DeadLetter(replace(record, stage=Stage.DEAD_LETTER, due=None))


def loop(hops: int) -> str:
    """Why an event is handed on no further."""
    return (
        f"it has passed {counted(hops, 'channel')}, so it goes round in a loop of replies, dead letter sinks or "
        "subscribers that are channels: open the loop, then replay it"
    )


def cause(record: StageRecord) -> str:
    """Why an event went to the dead letter sink, in words: what was answered before, not what the sink did."""
    if record.failure is None or not record.attempts.dead_letter:
        return record.last
    said = f"gave status {record.failure.code}" if record.failure.answered else "gave no answer"
    return f"{record.failure.destination} {said}"


def may_reply(record: StageRecord, subscriber: Subscriber) -> bool:
    """Is there a use for an event in the answer to this stage's POST?"""
    return record.stage is Stage.SUBSCRIBER and subscriber.reply is not None


def destination(subscriber: Subscriber, stage: Stage) -> Destination | None:
    """Where the POSTs of a stage go; None: its address was not given, or was removed."""
    return {
        Stage.SUBSCRIBER: subscriber.subscriber,
        Stage.REPLY: subscriber.reply,
        Stage.DEAD_LETTER: subscriber.dead_letter,
    }[stage]


def retryable(status: int | None) -> bool:
    """May the same request succeed later? None stands for no answer at all."""
    if status is None or status >= 500:
        return True
    return status in RETRYABLE_4XX


def wait(policy: DeliveryPolicy, failures: int, answer: Answer) -> timedelta:
    """The back-off of the policy, or what a 429 or 503 answer asks for if that is longer, up to retryAfterMax."""
    delay = min(policy.wait(failures), policy.longest_wait)
    if answer.status in _MAY_ASK and answer.retry_after is not None:
        return max(delay, min(answer.retry_after, policy.retry_after_max))
    return delay


def retry_after(value: str, now: datetime) -> timedelta | None:
    """Read a Retry-After header: seconds or an HTTP date; None for anything else, never negative.

    Source: RFC 9110 section 10.2.3.
    """
    text = value.strip()
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        # Eight digits never overflow a timedelta, and nine are more than a year.
        return min(timedelta(seconds=int(digits or "0")), _LONGEST_ASKED) if len(digits) <= 8 else _LONGEST_ASKED
    try:
        date = parsedate_to_datetime(text)
        # The oldest of HTTP's three formats names no zone; all of them mean UTC.
        asked = (date if date.tzinfo is not None else date.replace(tzinfo=UTC)) - now
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError):
        return None
    return min(max(timedelta(), asked), _LONGEST_ASKED)


def invalid(event_uri: str, error: InvalidEvent, record: StageRecord) -> StageRecord:
    """The record of a message that claims to be an event and is not one: no subscriber could take it.

    The faults quote the message; they are for the sink, while `last` goes to logs and names attributes only.
    """
    data = base64.b64encode(str(error).encode("utf-8", "backslashreplace")[:ERROR_DATA_BYTES]).decode()
    named = ", ".join(sorted({fault.attribute for fault in error.faults}))
    last = f"the message is not a valid event: see {named[:200]}"
    return replace(record, failure=StageFailure(event_uri, 400, data), last=last)


def _after_success(record: StageRecord, answer: Answer, subscriber: Subscriber) -> Decision:
    if not may_reply(record, subscriber) or answer.status not in _MAY_REPLY:
        return Ack(record)
    assert subscriber.reply is not None, "may_reply says so"
    if answer.unfit is not None:
        status, why = answer.unfit
        data = base64.b64encode(why.encode()).decode() if subscriber.error_data else ""
        failure = StageFailure(subscriber.reply.uri, status, data)
        return give_up(replace(record, stage=Stage.REPLY, failure=failure, last=why), subscriber)
    if answer.reply is None:
        return Ack(record)
    return Reply(replace(record, stage=Stage.REPLY, due=None, reply=answer.reply, reply_headers=answer.reply_headers))


def _failed(record: StageRecord, answer: Answer, subscriber: Subscriber) -> StageRecord:
    error = (answer.error if subscriber.error_data else "") or "no answer"
    said = f"gave status {answer.status}" if answer.status is not None else f"failed ({error})"
    if answer.known_before:
        said = f"{said} and took the event for one that it has, by source and id"
    body = answer.body if answer.status is not None else NO_ANSWER + error.encode()
    code = NO_ANSWER_CODE if answer.status is None else answer.status
    attempts = record.attempts.one_more(record.stage)
    said = f"{said} on attempt {attempts.of(record.stage)}"
    if record.stage is Stage.DEAD_LETTER:
        # The sink goes on being told what failed before it, not its own failure.
        return replace(record, attempts=attempts, last=f"dead letter sink {said}")
    to = destination(subscriber, record.stage)
    uri_of, kind = to.uri if to else "", answer.content_type
    if answer.status is not None and (behind := broker_filter.behind(uri_of, body)) is not None:
        (uri_of, body), kind = behind, ""
    if answer.status is not None and not subscriber.error_data:
        # Whoever chose the address may not be meant to read what is there.
        body, kind = b"", ""
    data = base64.b64encode(body[:ERROR_DATA_BYTES]).decode()
    failure = StageFailure(uri_of, code, data, kind, answered=answer.status is not None)
    return replace(record, attempts=attempts, failure=failure, last=f"{record.stage} {said}")


def known_before(answer: HttpAnswer) -> bool:
    """Does a channel say that it had the event before, while it does not know it as this delivery?

    Then it may have stored another delivery of it, or another event of the same source and id.
    """
    known = answer.header(DUPLICATE)
    return known is not None and known != OF_DELIVERY


def _printable(value: bytes) -> str:
    """What a stranger says in a header, cut, with nothing in it that a header or a terminal would take for more."""
    return "".join(chr(each) if 0x20 <= each < 0x7F else "?" for each in value[:_LONGEST_CONTENT_TYPE])
