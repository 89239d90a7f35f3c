"""A collector of traces: a real HTTP server that takes OTLP/HTTP, and gives back the spans as values."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.waiting import until


@dataclass(frozen=True)
class Span:
    """One span; ids in hex, `parent` empty for a root."""

    service: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    failed: bool
    attributes: dict[str, str | int]

    @property
    def header(self) -> str:
        """How a traceparent tells of it."""
        return f"00-{self.trace}-{self.id}-01"


class Collector:
    """Use it as a context manager.

    Attributes:
        spans: all that came so far.
        asked: the paths that were POSTed to.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.asked: set[str] = set()
        taker = self

        class Taking(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                taker.take(self.path, gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        self.asked.add(path)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(
                pair.value.string_value for pair in resource.resource.attributes if pair.key == "service.name"
            )
            self.spans += [_span(service, span) for scope in resource.scope_spans for span in scope.spans]

    def of(self, trace: str) -> list[Span]:
        """The spans of one trace that have come so far."""
        return [span for span in self.spans if span.trace == trace]

    async def wait(self, trace: str, *names: str) -> dict[str, Span]:
        """The spans of one trace by name, once there is one of each; fails the test when there is none in time."""
        await until(f"spans named {names} have come", lambda: set(names) <= {span.name for span in self.of(trace)})
        return {span.name: span for span in self.of(trace)}

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


def _span(service: str, span: WireSpan) -> Span:
    values = {
        pair.key: pair.value.int_value if pair.value.HasField("int_value") else pair.value.string_value
        for pair in span.attributes
    }
    return Span(
        service,
        span.name,
        WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.status.code == Status.STATUS_CODE_ERROR,
        values,
    )
