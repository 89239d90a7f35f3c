"""`receive` wired to the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic

from headrace.core import names
from headrace.core.errors import HeadraceError, InvalidEvent, Unavailable
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.nats_codec import Encoded
from headrace.core.event.plain_post import PlainPosts
from headrace.core.http import Request, Response
from headrace.core.http import request as http_request
from headrace.core.installation.function_settings import ReceiveSettings
from headrace.core.metrics import Snapshot
from headrace.core.nats.jetstream import PubAck
from headrace.host.receive_counts import ReceiveCounts
from headrace.io import delivery_key, tracing, web
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.jetstream.wake import FullHints, WakeHints
from headrace.io.nats.client import Client
from headrace.io.process import environment, log
from headrace.io.tracing import OpenSpan, SpanKind, Tracing
from headrace.receive.story import (
    ACCEPTED,
    ALLOW,
    KNOWN_DELIVERY,
    KNOWN_EVENT,
    KNOWN_PERHAPS,
    Effects,
    accepted,
    message_at_once,
    message_of,
    receive,
    route,
)

# What an event that waits takes beside its own bytes, task and request included (measured: 2.6 KiB the short way, up to
# 8.7 KiB the long one): without it a flood of tiny events would be held by the million.
BESIDE_BYTES = 8 * 1024
FULL = 507
STORED = web.whole(ACCEPTED, ALLOW)
# With all their headers, as answers of the short way have them.
_WHOLE = {one: web.whole(one, ALLOW) for one in (KNOWN_DELIVERY, KNOWN_EVENT, KNOWN_PERHAPS)}

_log = log.get("receive")


class Receiving:
    """The handler of `receive`."""

    @classmethod
    def configured(cls) -> Callable[[Client, JetStreamApi], Receiving]:
        """Read the settings now, so that a wrong one ends the process before it serves."""
        return partial(cls, environment.read(ReceiveSettings), delivery_key.claims(), tracing.configured("receive"))

    def __init__(
        self,
        settings: ReceiveSettings,
        claims: Claims,
        traced: Callable[[], Tracing | None] | None,
        client: Client,
        api: JetStreamApi,
    ) -> None:
        self._settings = settings
        self._claims = claims
        self._tracing = traced() if traced is not None else None
        self._jetstream = JetStream(client, api)
        self._publish_seconds = settings.publish_timeout.total_seconds()
        self._waiting = 0
        self._posts = PlainPosts(claims)
        self._counts = ReceiveCounts()
        self._sparing = log.Sparing()
        self._full = FullHints(self._jetstream)
        self._effects = Effects(
            publish=self._publish,
            wake=WakeHints(self._jetstream.hint, self._settings.wake_interval.total_seconds()),
            max_event_bytes=lambda: self._jetstream.max_event_bytes,
            claims=claims,
        )

    async def handle(self, request: Request, receive_: web.Receive, send: web.Send) -> None:
        tracing = self._tracing
        untraced = tracing is None or request.method != "POST" or tracing.leaves_out(request.headers)
        work = self._receive if tracing is None or untraced else self._traced(tracing)
        await web.answer(work(request, receive_), send, ALLOW)

    def offer(
        self, url: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes, answer: Callable[[Response], None]
    ) -> bool:
        """Take a whole POST the short way; see `headrace.server.direct`."""
        if self._tracing is not None and not self._tracing.leaves_out(headers):
            # Spans take more time than the long way does.
            return False
        found = message_at_once(url, headers, body, self._claims)
        return found is not None and self._store(found[0], answer, found[1])

    def offer_unread(self, data: bytes, answer: Callable[[Response], None]) -> bool:
        """Take bytes that may be a whole plain POST; see `headrace.server.direct`."""
        if self._tracing is not None:
            return False
        posted = self._posts.read(data)
        if posted is None or (message := message_of(posted)) is None:
            return False
        return self._store(message, answer, posted.claim)

    def _store(self, message: Encoded, answer: Callable[[Response], None], claim: bytes = b"") -> bool:
        """Publish it at once, if that can be done, and answer when that has been answered."""
        began = monotonic()
        subject = message.subject
        held = message.size + BESIDE_BYTES
        if self._waiting and self._waiting + held > self._settings.max_waiting_bytes:
            return False

        def done(outcome: PubAck | HeadraceError) -> None:
            self._waiting -= held
            if isinstance(outcome, PubAck):
                if outcome.duplicate:
                    answer(_WHOLE[accepted(outcome, claim)])
                else:
                    answer(STORED)
                if outcome.new:
                    self._effects.wake(outcome.stream)
                self._counts.stored(subject, outcome, monotonic() - began)
            else:
                refusal = web.whole(web.response_of(outcome), ALLOW)
                answer(refusal)
                self._counts.refused(refusal.status)
                self._tell_of_refusal(subject, refusal.status, outcome)

        if not self._jetstream.publish_at_once(message, self._publish_seconds, done):
            return False
        self._waiting += held
        return True

    def hold(self, size: int, held: int) -> bool:
        """Have room for more of a message that is on its way in; see `headrace.server.direct`."""
        if self._waiting > held and self._waiting + size > self._settings.max_waiting_bytes:
            return False
        self._waiting += size
        return True

    def let_go(self, size: int) -> None:
        self._waiting -= size

    def drain(self) -> None:
        """Nothing to do: an answer comes only after JetStream's, so whatever is accepted is stored."""

    async def close(self) -> None:
        """The last spans, if there are any."""
        if self._tracing is not None:
            await self._tracing.close()

    def snapshot(self) -> Snapshot:
        return self._counts.snapshot(self._waiting)

    def _traced(self, tracing: Tracing) -> Callable[[Request, web.Receive], Awaitable[Response]]:
        async def receive_traced(request: Request, receive_: web.Receive) -> Response:
            attributes = {"http.request.method": request.method, "url.path": request.path, **_event_facts(request)}
            with tracing.span("receive", SpanKind.SERVER, attributes, tuple(request.headers)) as span:
                # What is stored goes on from here.
                inside = http_request(request.method, request.path, span.headers(tuple(request.headers)))
                return await _told(self._receive(inside, receive_), span)

        return receive_traced

    async def _receive(self, request: Request, receive_: web.Receive) -> Response:
        held = 0

        def charge(size: int) -> None:
            """Bytes count from the moment they are here, so that neither slow clients nor a slow NATS pile them up."""
            nonlocal held
            if self._waiting > held and self._waiting + size > self._settings.max_waiting_bytes:
                raise Unavailable("too many events are on their way already: try again later")
            held += size
            self._waiting += size

        async def body(limit: int) -> bytes:
            charge(BESIDE_BYTES + sum(len(name) + len(value) for name, value in request.headers))
            return await web.read_body(receive_, request, limit, charge)

        try:
            return await receive(request, body, self._effects)
        except HeadraceError as error:
            subject = route(request)
            if isinstance(subject, str) and not isinstance(error, web.ClientGone):
                self._tell_of_refusal(subject, web.response_of(error).status, error)
            raise
        finally:
            self._waiting -= held

    def _tell_of_refusal(self, subject: str, status: int, error: HeadraceError) -> None:
        """The sender is told all of it; here a line of each kind in a while, so that somebody sees it on this side."""
        if status == FULL:
            self._full.tell(subject)
        left_out = self._sparing.admit(status)
        if left_out is None:
            return
        # The words of a faulty event quote what is in it.
        why = f"not a valid event: {_attributes(error)}" if isinstance(error, InvalidEvent) else str(error)
        write = _log.warning if status >= 500 else _log.info
        write("refused", channel="/".join(names.labels(subject)), status=status, why=why, **log.more(left_out))

    async def _publish(self, message: Encoded) -> PubAck:
        began = monotonic()
        if self._tracing is None or not self._tracing.around:
            ack = await self._jetstream.publish(message, self._publish_seconds)
        else:
            attributes = {"messaging.system": "nats", "messaging.destination.name": message.subject}
            with self._tracing.span("publish", SpanKind.PRODUCER, attributes) as span:
                moved = Encoded(message.subject, span.moved(message.block), message.data)
                ack = await self._jetstream.publish(moved, self._publish_seconds)
                span.tell({"headrace.stream": ack.stream, "headrace.sequence": ack.sequence})
        self._counts.stored(message.subject, ack, monotonic() - began)
        self._counts.long_way += 1
        return ack


def _attributes(error: InvalidEvent) -> str:
    """What is wrong, by name."""
    return ", ".join(sorted({fault.attribute for fault in error.faults}))[:200]


def _event_facts(request: Request) -> dict[str, str]:
    """What OpenTelemetry has names for, of an event in binary mode."""
    named = {
        "cloudevents.event_id": b"ce-id",
        "cloudevents.event_source": b"ce-source",
        "cloudevents.event_type": b"ce-type",
    }
    return {key: value.decode("latin-1") for key, name in named.items() if (value := request.header(name)) is not None}


async def _told(work: Awaitable[Response], span: OpenSpan) -> Response:
    """Await it, and have the span tell how it ended."""
    try:
        response = await work
    except HeadraceError as error:
        span.answered(web.response_of(error).status, least_failure=500)
        raise
    span.answered(response.status, least_failure=500)
    return response
