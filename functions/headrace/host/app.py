"""One function as an ASGI callable: probes, drain, and the target's own handler.

The handler is made at the first request, inside the loop that serves it: at import there may be another process, or
no loop at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from headrace.core import metric_families as families
from headrace.core.errors import Misconfigured, Unavailable
from headrace.core.http import Request, Response, problem
from headrace.core.installation.function_settings import SecuritySettings
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.metrics import Snapshot, added
from headrace.core.nats import payload
from headrace.core.quoting import quoted
from headrace.core.security.document import subject
from headrace.host.counts import Counts, Watched
from headrace.io import delivery_key, web
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import environment, limits, log
from headrace.io.process.security import Security
from headrace.server.crowd import Crowd

if TYPE_CHECKING:
    from headrace.server.front import Front
from headrace.server.refusals import WHY

READY_SECONDS = 1.0

_log = log.get("app")


class Handler(Protocol):
    """A target's handler of requests that are no probes."""

    async def handle(self, request: Request, receive: web.Receive, send: web.Send) -> None: ...

    def drain(self) -> None:
        """The process is asked to end: begin no new work, finish the present."""

    async def close(self) -> None: ...

    def snapshot(self) -> Snapshot:
        """The handler's counts."""


class App:
    """The ASGI application of one target.

    Attributes:
        intake: finds the part of its handler that takes events the short way (see `headrace.server.front`), of those
            that come by TLS or of all others; None: none.
        eager: the target has work of its own, and makes its handler when it starts.
        crowd: the connections of our own server.
        counts: the counts that every function has.
        security: the security document of this process's place.
    """

    def __init__(
        self,
        target: str,
        make: Callable[[Client, JetStreamApi, Security], Handler],
        *,
        intake: Callable[[Handler, bool], Front] | None = None,
        eager: bool = False,
    ) -> None:
        self.target = target
        self.intake = intake
        self.eager = eager
        self._make = make
        self._nats = environment.fill(NatsSettings)
        self._client: Client | None = None
        self._handler: Handler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._max_payload = 0
        self.draining = False
        self.crowd = Crowd(limits.connections())
        self.counts = Counts(target, self.crowd)
        settings = environment.fill(SecuritySettings)
        self.security = Security(settings, delivery_key.key() if settings.directory else b"")
        self._hearing: asyncio.Task[object] | None = None
        self._sparing = log.Sparing()

    async def __call__(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if scope["type"] != "http":
            return
        request = web.request_of(scope)
        # Probes are GET, by path or by the headers of kubelet and Knative; an event is never taken for one.
        if request.method != "POST":
            probe = await self._probe(request)
            if probe is not None:
                await web.send_response(send, probe)
                return
        watched = Watched(send)
        await self.handler().handle(request, receive, watched)
        if watched.status:
            self.counts.answered(watched.status)

    def handler(self) -> Handler:
        """The target's handler for the running loop."""
        loop = asyncio.get_running_loop()
        if self._handler is None or self._loop is not loop:
            self._loop = loop
            self._client = Client(self._nats, name=f"headrace-{self.target}")
            self._client.on_disconnect.append(self.counts.disconnected)
            self._handler = self._make(self._client, JetStreamApi(self._client), self.security)
            self.security.begin()
            if place := self.security.place:
                hearing = self._client.subscribe(subject(place), lambda push: self.security.pushed(push.data))
                self._hearing = loop.create_task(hearing)
        return self._handler

    def short_way(self, *, secure: bool) -> Front | None:
        """The part that takes events the short way, for our own server; None: there is none.

        Args:
            secure: they come by TLS.
        """
        return None if self.intake is None else self.intake(self.handler(), secure)

    def refused(self, status: int) -> None:
        """Count a request that our server has refused by itself, and log it sparingly."""
        self.counts.refused(status)
        if (left_out := self._sparing.admit(status)) is not None:
            _log.info("refused", status=status, why=WHY[status][1], **log.more(left_out))

    def snapshot(self) -> Snapshot:
        """The counts of this process so far; `headrace.core.metric_families` explains each."""
        connected = self._client is not None and self._client.connected
        own = self.counts.snapshot(connected=connected)
        return own if self._handler is None else added((own, self._handler.snapshot()), families.BY_NAME)

    def alive(self) -> bool:
        return True

    async def ready(self) -> bool:
        """Can this process reach NATS, and is it not ending?"""
        if self.draining:
            return False
        self.handler()
        try:
            await self._connected().ready(READY_SECONDS)
        except Unavailable:
            return False
        self._tell_of_payload(self._connected().max_payload)
        self.counts.step("ready")
        return True

    def _tell_of_payload(self, max_payload: int) -> None:
        """Log once for each limit that no event fits: later refusals would look like the senders' faults."""
        if max_payload != self._max_payload and (problem := payload.problem(max_payload)):
            _log.error("no event fits", why=f"{problem}; {payload.DO}")
        self._max_payload = max_payload

    def drain(self) -> None:
        """Called on SIGTERM, before the server stops: leases stop pulling, probes answer that it is not ready."""
        self.draining = True
        if self._handler is not None:
            self._handler.drain()

    async def close(self) -> None:
        """Called after the last answer: flush buffers, close connections."""
        self.security.end()
        if self._handler is not None:
            await self._handler.close()
            await self._connected().close()

    def _connected(self) -> Client:
        if self._client is None:
            raise RuntimeError("handler() comes first")
        return self._client

    async def _probe(self, request: Request) -> Response | None:
        if request.method in ("GET", "HEAD"):
            if request.path in web.LIVENESS:
                return Response(200)
            if request.path in web.READINESS:
                return Response(200) if await self.ready() else problem(503, "Not ready", self._why())
        if web.kubelet_probe(request):
            return Response(503 if self.draining else 200)
        return None

    def _why(self) -> str:
        return "the process is ending" if self.draining else "NATS is not reachable"

    async def _lifespan(self, receive: web.Receive, send: web.Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self.eager:
                    self.handler()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def application(target: str | None = None) -> App:
    """The application of a target, by default FUNCTION_TARGET's.

    Raises:
        Misconfigured: no such target, or a setting is wrong.
    """
    name = target or environment.variable("FUNCTION_TARGET", "receive")
    # Imported on demand: `receive` starts from zero, and needs no HTTP client and no manifests.
    match name:
        case "receive":
            from headrace.host.receiving import Receiving

            return App(
                name, Receiving.configured(), intake=lambda handler, secure: cast(Receiving, handler).intake[secure]
            )
        case "forward":
            from headrace.host.leasing import Leasing

            return App(name, Leasing.configured(), eager=Leasing.stands())
        case "reconcile":
            from headrace.host.reconciling import Reconciling

            return App(name, Reconciling.configured())
        case _:
            raise Misconfigured(
                f"FUNCTION_TARGET is {quoted(name)}: set it to receive, forward or reconcile", field="FUNCTION_TARGET"
            )
