"""Traces in OpenTelemetry, with W3C context: off unless OTEL_EXPORTER_OTLP_ENDPOINT is set, and then over OTLP/HTTP.

The SDK reads its own variables (sampler, headers, resource, batches); we read only whether there is an endpoint. It is
imported when the first span is near, since that takes a third of a second of CPU. What it has to say of itself goes to
our log, sparingly. Without it, context that a producer sends still travels with its event; only nobody adds to it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headrace.core.errors import Misconfigured
from headrace.core.http import Headers
from headrace.core.installation.function_settings import TracingSettings
from headrace.io.process import environment, log

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PARENT, STATE = b"traceparent", b"tracestate"
_CONTEXT = (PARENT, STATE)
# A context of which nobody records anything.
_UNSAMPLED = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][02468ace]")
# The distributed tracing extension of CloudEvents: the context in which the event came to be.
_EXTENSION = b"ce-traceparent"
_SESSION_GIVERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
# For what is not exported yet when the process ends; Kubernetes waits for longer, people at a terminal do not.
CLOSE_SECONDS = 3.0

_log = log.get("tracing")


class SpanKind(Enum):
    """Which side of what a span is."""

    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"


class OpenSpan:
    """A span that has begun."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def headers(self, headers: Headers) -> Headers:
        """These headers with this span's context in the place of theirs."""
        return (*(header for header in headers if header[0] not in _CONTEXT), *self.context())

    def context(self) -> Headers:
        """The headers that tell of this span."""
        context = self._span.get_span_context()
        told = b"00-%032x-%016x-%02x" % (context.trace_id, context.span_id, context.trace_flags)
        if not context.trace_state:
            return ((PARENT, told),)
        return ((PARENT, told), (STATE, context.trace_state.to_header().encode()))

    def moved(self, block: bytes) -> bytes:
        """A stored header block whose context is that of the span above, with this one's."""
        parent = next((value for name, value in self.context() if name == PARENT), b"")
        head, mark, rest = block.partition(b"\r\n" + PARENT + b": ")
        return head + mark + parent + rest[len(parent) :] if mark and parent else block

    def answered(self, status: int | None, error: str = "", *, least_failure: int = 400) -> None:
        """How the request ended.

        Args:
            status: None: without an answer, for the reason in `error`.
            least_failure: the status from which on this side has failed: of a server 500.
        """
        from opentelemetry.trace import StatusCode

        if status is not None:
            self._span.set_attribute("http.response.status_code", status)
        if status is None or status >= least_failure:
            self._span.set_attribute("error.type", "no answer" if status is None else str(status))
            self._span.set_status(StatusCode.ERROR, error or None)

    def tell(self, attributes: Mapping[str, str | int]) -> None:
        self._span.set_attributes(attributes)


class Tracing:
    """The spans of one process; made inside the loop that serves."""

    def __init__(self, function: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from headrace.io import export

        _hear_of_troubles()
        given = Resource.create()
        # Without OTEL_SERVICE_NAME the SDK has a name for what has none.
        named = not str(given.attributes["service.name"]).startswith("unknown_service")
        resource = given if named else given.merge(Resource({"service.name": f"headrace-{function}"}))
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(session=None if _has_own_session() else export.session()))
        )
        self._tracer = self._provider.get_tracer("headrace")
        # As all samplers but three do, that which counts when none is named included.
        self._obeys = environment.variable("OTEL_TRACES_SAMPLER", "parentbased").startswith("parentbased")

    @property
    def around(self) -> bool:
        """Is a span of ours open around this?"""
        from opentelemetry import trace

        return trace.get_current_span() is not trace.INVALID_SPAN

    def leaves_out(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Has whoever began the trace decided that nobody records it, so that it goes on as it came?"""
        parent = next((value for name, value in headers if name == PARENT), b"")
        return self._obeys and _UNSAMPLED.fullmatch(parent) is not None

    @contextmanager
    def span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, str | int], parent: Headers | None = None
    ) -> Iterator[OpenSpan]:
        """A span for the time of the block.

        Args:
            parent: headers that tell of the span above; None: the one that is open around this.
        """
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = None
        if parent is not None:
            carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in parent if key in _CONTEXT}
            extension = next((value for key, value in parent if key == _EXTENSION), None)
            if extension is not None:
                carrier.setdefault("traceparent", extension.decode("latin-1"))
            # An empty context as the base: whatever is open around us is not above.
            context = TraceContextTextMapPropagator().extract(carrier, trace.set_span_in_context(trace.INVALID_SPAN))
        with self._tracer.start_as_current_span(
            name,
            context,
            kind=trace.SpanKind[kind.value],
            attributes=dict(attributes),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield OpenSpan(span)

    async def close(self) -> None:
        """Export what is left, for CLOSE_SECONDS at most."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(done.set)

        # A daemon: nothing waits for a collector that does not answer.
        threading.Thread(target=shut_down, name="tracing-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await done.wait()
        except TimeoutError:
            _log.warning("the last spans could not be exported", seconds=CLOSE_SECONDS)


def configured(function: str) -> Callable[[], Tracing | None] | None:
    """What makes the spans of this process; None: nobody wants any.

    It gives None, and says so, where the SDK can't use its own variables: events must not suffer from those.

    Raises:
        Misconfigured: they are wanted, and the package is not there.
    """
    if environment.read(TracingSettings).endpoint is None:
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise Misconfigured(
            f"{ENDPOINT} is set, but OpenTelemetry is not installed: install the extra `tracing`, or unset it",
            field=ENDPOINT,
        )
    return lambda: _made(function)


def _made(function: str) -> Tracing | None:
    try:
        return Tracing(function)
    except Exception as error:  # noqa: BLE001  # the SDK names none; it is not worth an event
        _log.error("no spans are made: check the OTEL_ variables", error=f"{type(error).__name__}: {error}")
        return None


def _has_own_session() -> bool:
    """Has a plugin been named to the SDK that gives the exporter its session, credentials included?"""
    return any(environment.variable(name) for name in _SESSION_GIVERS)


class _Troubles(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._sparing = log.Sparing()

    def emit(self, record: logging.LogRecord) -> None:
        left_out = self._sparing.admit(record.msg)
        if left_out is not None:
            _log.warning("OpenTelemetry has a trouble", why=record.getMessage()[:300], **log.more(left_out))


def _hear_of_troubles() -> None:
    theirs = logging.getLogger("opentelemetry")
    if not any(isinstance(each, _Troubles) for each in theirs.handlers):
        theirs.addHandler(_Troubles())
        theirs.propagate = False
