"""`receive` wired to the world: settings, NATS, spans, counts and the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from headrace.core import hosts, names
from headrace.core.errors import HeadraceError, InvalidEvent, Unavailable
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.event_kinds import EventKinds
from headrace.core.event.nats_codec import Encoded
from headrace.core.http import Request, Response
from headrace.core.http import request as http_request
from headrace.core.installation.function_settings import ReceiveSettings
from headrace.core.metrics import Snapshot
from headrace.core.nats.jetstream import PubAck
from headrace.core.security.document import SecurityDocument
from headrace.core.waiting import BESIDE_BYTES, Waiting
from headrace.host.gatekeeper import Gatekeeper
from headrace.host.receive_counts import ReceiveCounts
from headrace.io import delivery_key, tracing, web
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.jetstream.kind_feed import KindFeed
from headrace.io.jetstream.wake import FullHints, WakeHints
from headrace.io.nats.client import Client
from headrace.io.process import clock, environment, log
from headrace.io.process.security import Security
from headrace.io.tracing import SpanKind, Tracing
from headrace.receive.doors import Doors
from headrace.receive.pace import RefusalPace
from headrace.receive.route import ALLOW, Router
from headrace.receive.short_way import Intake
from headrace.receive.story import ReceiveEffects, receive

FULL = 507

Answer = Callable[[Response], Awaitable[None]]

_log = log.get("receive")


class Receiving:
    """The handler of `receive`; `intake` takes events the short way: the first of plain requests, the second by TLS."""

    @classmethod
    def configured(cls) -> Callable[[Client, JetStreamApi, Security], Receiving]:
        """Read the settings now, so that a wrong one ends the process before it serves."""
        return partial(cls, environment.fill(ReceiveSettings), delivery_key.key(), tracing.configured("receive"))

    def __init__(
        self,
        settings: ReceiveSettings,
        key: bytes,
        traced: Callable[[], Tracing | None] | None,
        client: Client,
        api: JetStreamApi,
        security: Security,
    ) -> None:
        self._tracing = traced() if traced is not None else None
        self._security = security
        self._jetstream = JetStream(client, api)
        self._waiting = Waiting(settings.max_waiting_bytes)
        self._counts = ReceiveCounts()
        self._sparing = log.Sparing()
        self._pace = RefusalPace(clock.monotonic)
        self._full = FullHints(self._jetstream)
        self._tls_proxies = settings.tls_proxies
        self._doors = Doors()
        self._doors.set(security.now().flags.transport_encryption)
        security.on_change.append(lambda document: self._doors.set(document.flags.transport_encryption))
        self._effects = ReceiveEffects(
            router=Router(settings),
            publish=self._publish,
            publish_now=self._jetstream.publish_now,
            publish_seconds=settings.publish_timeout.total_seconds(),
            stored=self._counts.stored,
            monotonic=clock.monotonic,
            wake=WakeHints(self._jetstream.hint, settings.wake_interval.total_seconds()),
            max_event_bytes=lambda: self._jetstream.max_event_bytes,
            refuse=self._refuse_on_short_way,
            traced=None if self._tracing is None else self._is_traced,
            claims=Claims(key or None),
            kinds=EventKinds(),
            gate=Gatekeeper(security).gate,
            doors=self._doors,
        )
        doors = self._doors.plain, self._doors.secure
        self.intake = tuple(Intake(self._effects, self._waiting, door) for door in doors)
        if security.place:
            KindFeed(self._effects.kinds, self._jetstream.hint, security.place, key)
            security.on_change.append(self._obey)
            self._obey(security.now())

    async def handle(self, request: Request, receive_: web.Receive, send: web.Send) -> None:
        async def answer(response: Response) -> None:
            await web.send_response(send, response, ALLOW)

        if not (request.secure or self._doors.plain.open) and self._came_by_tls(request):
            request = request._replace(secure=True)
        tracing = self._tracing
        if tracing is None or request.method != "POST" or tracing.leaves_out(request.headers):
            await self._receive(request, receive_, answer)
        else:
            await self._receive_traced(tracing, request, receive_, answer)

    def drain(self) -> None:
        """Nothing to do: an answer comes only after JetStream's, so every accepted event is stored."""

    async def close(self) -> None:
        if self._tracing is not None:
            await self._tracing.close()

    def snapshot(self) -> Snapshot:
        return self._counts.snapshot(self._waiting.size)

    def _obey(self, document: SecurityDocument) -> None:
        wanted = document.flags.auto_create_types
        if wanted != self._effects.kinds.on:
            self._effects.kinds.ask_for(wanted)

    async def _receive_traced(self, tracing: Tracing, request: Request, receive_: web.Receive, answer: Answer) -> None:
        attributes = {"http.request.method": request.method, "url.path": request.path, **_event_facts(request)}
        with tracing.span("receive", SpanKind.SERVER, attributes, tuple(request.headers)) as span:

            async def answer_and_tell(response: Response) -> None:
                span.answered(response.status, least_failure=500)
                await answer(response)

            # The stored event carries this span's context.
            inside = http_request(request.method, request.path, span.headers(tuple(request.headers)), request.peer)
            inside = inside._replace(secure=request.secure)
            await self._receive(inside, receive_, answer_and_tell)

    def _came_by_tls(self, request: Request) -> bool:
        """Did a proxy in front of us take it by TLS?"""
        peer = hosts.address(request.peer)
        said = (request.header(b"x-forwarded-proto") or b"").partition(b",")[0].strip().lower()
        return said == b"https" and peer is not None and any(peer in network for network in self._tls_proxies)

    async def _receive(self, request: Request, receive_: web.Receive, answer: Answer) -> None:
        held = 0

        def charge(size: int) -> None:
            nonlocal held
            if not self._waiting.add(size, held):
                raise Unavailable("too many events are on their way already: try again later")
            held += size

        def let_go() -> None:
            nonlocal held
            self._waiting.drop(held)
            held = 0

        async def body(limit: int) -> bytes:
            charge(BESIDE_BYTES + sum(len(name) + len(value) for name, value in request.headers))
            return await web.read_body(receive_, request, limit, charge)

        async def let_go_and_answer(response: Response) -> None:
            # A client that does not read its answer must not take room from others.
            let_go()
            await answer(response)

        try:
            await receive(request, body, self._effects, let_go_and_answer)
        except web.ClientGone:
            pass
        except HeadraceError as error:
            subject = self._effects.router.route(request)
            response = web.response_of(error)
            if isinstance(subject, str):
                self._tell_of_refusal(subject, response.status, error)
            let_go()
            await asyncio.sleep(self._pace.delay(error))
            await answer(response)
        finally:
            let_go()

    async def _publish(self, message: Encoded, seconds: float) -> PubAck:
        began = clock.monotonic()
        if self._tracing is None or not self._tracing.around:
            ack = await self._jetstream.publish(message, seconds)
        else:
            attributes = {"messaging.system": "nats", "messaging.destination.name": message.subject}
            with self._tracing.span("publish", SpanKind.PRODUCER, attributes) as span:
                moved = Encoded(message.subject, span.moved(message.block), message.data)
                ack = await self._jetstream.publish(moved, seconds)
                span.tell({"headrace.stream": ack.stream, "headrace.sequence": ack.sequence})
        self._counts.stored(message.subject, ack, clock.monotonic() - began)
        self._counts.long_way += 1
        return ack

    def _is_traced(self, block: bytes) -> bool:
        return self._tracing is not None and not self._tracing.leaves_out_block(block)

    def _refuse_on_short_way(self, subject: str, error: HeadraceError, answer: Callable[[Response], None]) -> None:
        response = web.with_headers(web.response_of(error), ALLOW)
        self._counts.refused(response.status)
        self._tell_of_refusal(subject, response.status, error)
        if (delay := self._pace.delay(error)) > 0:
            asyncio.get_running_loop().call_later(delay, answer, response)
        else:
            answer(response)

    def _tell_of_refusal(self, subject: str, status: int, error: HeadraceError) -> None:
        """Log refusals of each kind sparingly, so that people see them on this side; the sender gets all the words."""
        if status == FULL:
            self._full.tell(subject)
        left_out = self._sparing.admit(status)
        if left_out is None:
            return
        # The error of a faulty event quotes its content.
        why = f"not a valid event: {_attributes(error)}" if isinstance(error, InvalidEvent) else str(error)
        write = _log.warning if status >= 500 else _log.info
        write("refused", channel="/".join(names.labels(subject)), status=status, why=why, **log.more(left_out))


def _attributes(error: InvalidEvent) -> str:
    """The names of the faulty attributes."""
    return ", ".join(sorted({fault.attribute for fault in error.faults}))[:200]


def _event_facts(request: Request) -> dict[str, str]:
    """The attributes of an event in binary mode that OpenTelemetry has names for."""
    named = {
        "cloudevents.event_id": b"ce-id",
        "cloudevents.event_source": b"ce-source",
        "cloudevents.event_type": b"ce-type",
    }
    return {key: value.decode("latin-1") for key, name in named.items() if (value := request.header(name)) is not None}
