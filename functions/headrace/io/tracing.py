"""Traces in OpenTelemetry, with W3C context: off unless OTEL_EXPORTER_OTLP_ENDPOINT is set, and then over OTLP/HTTP.

The SDK reads its own variables (sampler, headers, resource, batches); we read only whether there is an endpoint. We
import the SDK just before the first span, since the import takes a third of a second of CPU. The SDK's messages go to
our log, sparingly. Without the SDK a producer's context still travels with its event, but no span of ours joins it.
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
# A context whose trace nobody records.
_UNSAMPLED = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][02468ace]")
# CloudEvents' extension for distributed tracing: the context in which the event was created.
_EXTENSION = b"ce-traceparent"
_SESSION_GIVERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)
# The time for the last spans when the process ends. Kubernetes would wait longer; people at a terminal would not.
CLOSE_SECONDS = 3.0

_log = log.get("tracing")


class SpanKind(Enum):
    """The side of a call that a span is about."""

    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"


class OpenSpan:
    """A span that has begun."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def headers(self, headers: Headers) -> Headers:
        """These headers, with this span's context in place of their own."""
        return (*(header for header in headers if header[0] not in _CONTEXT), *self.context())

    def context(self) -> Headers:
        """The headers that carry this span's context."""
        context = self._span.get_span_context()
        parent = b"00-%032x-%016x-%02x" % (context.trace_id, context.span_id, context.trace_flags)
        if not context.trace_state:
            return ((PARENT, parent),)
        return ((PARENT, parent), (STATE, context.trace_state.to_header().encode()))

    def moved(self, block: bytes) -> bytes:
        """The same stored header block, with this span's context in place of the parent span's."""
        parent = next((value for name, value in self.context() if name == PARENT), b"")
        head, mark, rest = block.partition(b"\r\n" + PARENT + b": ")
        return head + mark + parent + rest[len(parent) :] if mark and parent else block

    def answered(self, status: int | None, error: str = "", *, least_failure: int = 400) -> None:
        """How the request ended.

        Args:
            status: of the answer; None: no answer came, for the reason in `error`.
            least_failure: the lowest status that is a failure of this side; a server's is 500.
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
        # Without OTEL_SERVICE_NAME the SDK gives a name of its own, which begins with `unknown_service`.
        named = not str(given.attributes["service.name"]).startswith("unknown_service")
        resource = given if named else given.merge(Resource({"service.name": f"headrace-{function}"}))
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(session=None if _has_own_session() else export.session()))
        )
        self._tracer = self._provider.get_tracer("headrace")
        # All samplers but three obey the parent's decision, and so does the default sampler.
        self._obeys = environment.variable("OTEL_TRACES_SAMPLER", "parentbased").startswith("parentbased")

    @property
    def around(self) -> bool:
        """Does the caller run inside an open span of ours?"""
        from opentelemetry import trace

        return trace.get_current_span() is not trace.INVALID_SPAN

    def leaves_out(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Does the sender's context say that nobody records this trace? Then the context goes on as it came."""
        return self._is_unsampled(next((value for name, value in headers if name == PARENT), b""))

    def leaves_out_block(self, block: bytes) -> bool:
        """`leaves_out` for the header block of a message."""
        return self._is_unsampled(block.partition(b"\r\n" + PARENT + b": ")[2].partition(b"\r\n")[0])

    def _is_unsampled(self, parent: bytes) -> bool:
        return self._obeys and _UNSAMPLED.fullmatch(parent) is not None

    @contextmanager
    def span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, str | int], parent: Headers | None = None
    ) -> Iterator[OpenSpan]:
        """A span for the time of the block.

        Args:
            parent: the headers that carry the parent span's context; None: the open span is the parent.
        """
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = None
        if parent is not None:
            carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in parent if key in _CONTEXT}
            extension = next((value for key, value in parent if key == _EXTENSION), None)
            if extension is not None:
                carrier.setdefault("traceparent", extension.decode("latin-1"))
            # The base is an empty context, since a span that is open here is not the parent.
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
        """Export the last spans, for CLOSE_SECONDS at most."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            loop.call_soon_threadsafe(done.set)

        # The thread is a daemon, so that the process does not wait for a collector that does not answer.
        threading.Thread(target=shut_down, name="tracing-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await done.wait()
        except TimeoutError:
            _log.warning("the last spans could not be exported", seconds=CLOSE_SECONDS)


def configured(function: str) -> Callable[[], Tracing | None] | None:
    """A maker of this process's spans; None: nobody wants spans.

    The maker returns None, and logs the reason, where the SDK can't use its own variables: events must not suffer.

    Raises:
        Misconfigured: spans are wanted, and the package is not installed.
    """
    if environment.fill(TracingSettings).endpoint is None:
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise Misconfigured(
            f"{ENDPOINT} is set, but OpenTelemetry is not installed: install the extra `tracing`, or unset it",
            field=ENDPOINT,
        )
    return lambda: _start(function)


def _start(function: str) -> Tracing | None:
    try:
        return Tracing(function)
    except Exception as error:  # noqa: BLE001  # the SDK documents no errors, and a span is not worth an event
        _log.error("no spans are made: check the OTEL_ variables", error=f"{type(error).__name__}: {error}")
        return None


def _has_own_session() -> bool:
    """Does a variable of the SDK name a plugin that gives the exporter its session, with credentials?"""
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
