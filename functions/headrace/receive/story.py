"""`receive`: decode, name, publish, answer, wake, and note the kind; in that order.

The story owns the order of effects of an accepted event, for both ways of an event, and the table of answers; the
effects arrive as arguments. It answers 202 only after JetStream has acknowledged the event, and hints only after the
answer: nobody waits for a hint, and a sweep finds the events of a lost one. `headrace.host` calls it for each request
that is no probe and did not go the short way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.errors import HeadraceError, Refused
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.delivery_claim import CLAIM, DUPLICATE, OF_DELIVERY, OF_EVENT, UNSURE, Claims
from headrace.core.event.event import Event
from headrace.core.event.event_kinds import EventKinds
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.nats_codec import Encoded
from headrace.core.http import Headers, Request, Response, problem
from headrace.core.nats.jetstream import PubAck
from headrace.core.quoting import quoted
from headrace.receive.doors import Doors
from headrace.receive.gate import Gate
from headrace.receive.route import ALLOW, Router

# The WebHook handshake of CloudEvents: anyone may send, at any rate.
OPTIONS: Headers = ((b"webhook-allowed-origin", b"*"), (b"webhook-allowed-rate", b"*"))
# Base64 makes the data of a structured event a third longer on the way in than in the stream.
STRUCTURED_SLACK = 64 * 1024
AUTHORIZATION = b"authorization"
# Headers that may change the meaning of the body's bytes.
CODED = frozenset((b"content-encoding", b"transfer-encoding", b"upgrade"))

ACCEPTED = Response(202, ALLOW)
# By which mark the stored event was known, for `forward` and for people (ADR 044).
KNOWN_DELIVERY, KNOWN_EVENT, KNOWN_PERHAPS = (
    Response(202, (*ALLOW, (DUPLICATE, by))) for by in (OF_DELIVERY, OF_EVENT, UNSURE)
)

Body: TypeAlias = Callable[[int], Awaitable[bytes]]
Outcome: TypeAlias = PubAck | HeadraceError


@dataclass(frozen=True, slots=True)
class ReceiveEffects:
    """The effects of `receive`.

    Attributes:
        router: finds the channel of a request.
        publish: store one message within so many seconds; raises Refused or Unavailable (see
            `headrace.io.jetstream.data_path`).
        publish_now: `publish` without a coroutine; False: that can't be done now, and nothing has happened.
        publish_seconds: the time that an event may take to be stored.
        stored: count an event that the short way has stored, and the seconds that it took.
        monotonic: the clock of those seconds.
        wake: tell the operator that a stream has something new.
        max_event_bytes: largest message that may be stored, headers included.
        refuse: answer an event of the short way for that subject that could not be stored; it logs the refusal, too.
        traced: does this header block ask for spans? Only the long way makes them. None: no event is traced.
        claims: knows the deliveries of `forward`.
        kinds: remembers the kinds of stored events, where EventTypes are asked for.
        gate: what senders have to show.
        doors: the doors that are open, of those for plain requests and for TLS.
    """

    router: Router
    publish: Callable[[Encoded, float], Awaitable[PubAck]]
    publish_now: Callable[[Encoded, float, Callable[[Outcome], None]], bool]
    publish_seconds: float
    stored: Callable[[str, PubAck, float], None]
    monotonic: Callable[[], float]
    wake: Callable[[str], None]
    max_event_bytes: Callable[[], int]
    refuse: Callable[[str, HeadraceError, Callable[[Response], None]], None]
    traced: Callable[[bytes], bool] | None
    claims: Claims
    kinds: EventKinds
    gate: Gate
    doors: Doors


async def receive(
    request: Request, body: Body, effects: ReceiveEffects, answer: Callable[[Response], Awaitable[None]]
) -> None:
    """Answer one request to a channel.

    Args:
        body: reads the request's body up to the given number of bytes; raises Refused beyond that.
        answer: called once, unless this raises.

    Raises:
        InvalidEvent, Refused, Unavailable: for the shell to answer.

    The order is that of Knative's own event receiver: door, method, route, token, parse, validate, policy, store
    (ADR 010).
    """
    subject = effects.doors.refusal(request) or _refusal_by_method(request) or effects.router.route(request)
    if isinstance(subject, Response):
        await answer(subject)
        return
    sender = ""
    if effects.gate.tokens is not None:
        # Before a byte of the body is read.
        shown = [value for name, value in request.headers if name == AUTHORIZATION]
        sender = effects.gate.tokens.subject(subject, shown)
    if (refusal := _coded(request)) is not None:
        await answer(refusal)
        return
    claim = effects.claims.proven(_only(request.headers, CLAIM))
    event = await _event(request, body, effects.max_event_bytes())
    # A request may have begun before tokens were asked for.
    if sender and effects.gate.senders is not None:
        effects.gate.senders.verdict(subject, sender).check(event.attributes)
    message = _message(request, event, subject, claim, effects.max_event_bytes())
    ack = await effects.publish(message, effects.publish_seconds)
    for response in conclusion(message, ack, claim, effects):
        await answer(response)


def conclusion(message: Encoded, ack: PubAck, claim: bytes, effects: ReceiveEffects) -> Iterator[Response]:
    """The effects after an event is in the stream: the answer, then the hint, and then the note of its kind.

    The long way awaits its answer, the short way writes it. So both iterate here, and give the answer that comes out.
    """
    yield accepted(ack, claim)
    if ack.new:
        effects.wake(ack.stream)
    if effects.kinds.on:
        effects.kinds.note(message)


def accepted(ack: PubAck, claim: bytes) -> Response:
    """The answer to an event that is in the stream, now or since before.

    Args:
        claim: the claim by which a duplicate was known; empty for none.
    """
    if not ack.duplicate:
        return ACCEPTED
    if claim:
        return KNOWN_DELIVERY
    return KNOWN_PERHAPS if ack.unsure else KNOWN_EVENT


def _refusal_by_method(request: Request) -> Response | None:
    match request.method:
        case "POST":
            return None
        case "OPTIONS":
            return Response(200, ALLOW + OPTIONS)
        case method:
            return problem(405, "Method not allowed", f"send events with POST, not {method}", headers=ALLOW)


def _coded(request: Request) -> Response | None:
    """A refusal of a coded body: stored, it would reach subscribers coded and unlabelled."""
    if request.fields.keys().isdisjoint(CODED):
        return None
    for name, value in request.headers:
        coding = value.strip().lower()
        if name == b"content-encoding" and coding not in (b"", b"identity"):
            detail = f"content-encoding {quoted(value.decode('latin-1'))} is not supported: send the event uncompressed"
            return problem(415, "Unsupported content coding", detail, headers=ALLOW)
        if name == b"transfer-encoding" and coding != b"chunked":
            detail = f"transfer-encoding {quoted(value.decode('latin-1'))} is not supported: send chunked, or a length"
            return problem(501, "Unsupported transfer coding", detail, headers=ALLOW)
        if name == b"upgrade":
            # Our own server ignores the offer; others hand the request on without its body.
            return problem(501, "Unsupported upgrade", "send the event without an Upgrade header", headers=ALLOW)
    return None


def _only(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The one header of that lower-case name; None if there are none, or several."""
    found = [value for key, value in headers if key == name]
    return found[0] if len(found) == 1 else None


async def _event(request: Request, body: Body, limit: int) -> Event:
    """The event of the request.

    Args:
        limit: the largest size of the message to store.
    """
    content_type = (request.header(b"content-type") or b"").decode("latin-1")
    structured = http_codec.is_structured(content_type)
    data = await body(limit * 4 // 3 + STRUCTURED_SLACK if structured else limit)
    return http_codec.from_http(HttpMessage(tuple(request.headers), data))


def _message(request: Request, event: Event, subject: str, claim: bytes, limit: int) -> Encoded:
    """The message to store."""
    passing = http_codec.passthrough(request.headers)
    message = nats_codec.encoded(nats_codec.to_binary(event, subject, passing, claim))
    if message.size > limit:
        raise Refused(f"the event takes {message.size} bytes, headers included; the limit is {limit}", status=413)
    return message
