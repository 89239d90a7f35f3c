"""What the scaler knows, for Prometheus: backlog, windows and leases of every consumer, and what became of its events.

Every lease tells the scaler how each of its events ended, so this one endpoint counts them all, also those of a
`forward` that has long been scaled to zero. Reads the scaler's rows when it is scraped, and costs nothing in between.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.core.errors import Misconfigured

LABELS = ("namespace", "channel", "subscription")
SCRAPE_SECONDS = 5.0

Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""Gives `headrace_operator.served.Served.row` of each consumer."""

GAUGES = {
    "pending": ("headrace_consumer_pending_events", "Stored events that no lease has pulled yet"),
    "ack_pending": ("headrace_consumer_ack_pending_events", "Events that are pulled and not settled, retries included"),
    "max_ack_pending": ("headrace_consumer_max_ack_pending_events", "How many of those there may be; 0 or less: any"),
    "window_full": (
        "headrace_consumer_ack_window_full",
        "1 while no fresh event is delivered since those are too many",
    ),
    "open": ("headrace_leases_open", "Leases that are open"),
}
COUNTERS = {
    "opened": ("headrace_leases_opened", "Leases that were opened"),
    "failures": ("headrace_lease_failures", "Leases that broke, or could not be opened"),
}


class ScalerMetrics(Collector):
    """The metric families of one scaler, made anew at each scrape."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        """All families; a consumer's counters begin anew when it, or the scaler, does."""
        rows = [(tuple(str(row[label]) for label in LABELS), row) for row in self._rows()]
        for key, (name, words) in GAUGES.items():
            gauge = GaugeMetricFamily(name, words, labels=LABELS)
            for labels, row in rows:
                gauge.add_metric(labels, float(row[key]))
            yield gauge
        for key, (name, words) in COUNTERS.items():
            counter = CounterMetricFamily(name, words, labels=LABELS)
            for labels, row in rows:
                counter.add_metric(labels, float(row[key]))
            yield counter
        events = CounterMetricFamily(
            "headrace_events",
            "Events by how they left a lease; `redelivered` beside another",
            labels=(*LABELS, "outcome"),
        )
        for labels, row in rows:
            for outcome, count in row["events"].items():
                events.add_metric((*labels, outcome), float(count))
        yield events


@asynccontextmanager
async def served(host: str, port: int, stats: Callable[[], Mapping[str, Any]], option: str) -> AsyncIterator[int]:
    """Serve `/metrics` for the time of the block, on a thread of its own; gives the port.

    Args:
        port: 0 for any free one.
        stats: the scaler's; called on the loop, where nothing changes meanwhile.
        option: that named host and port, for errors.

    Raises:
        Misconfigured: nobody can listen there.
    """
    loop = asyncio.get_running_loop()

    async def read() -> list[Mapping[str, Any]]:
        return list(stats()["consumers"].values())

    def read_from_thread() -> list[Mapping[str, Any]]:
        return asyncio.run_coroutine_threadsafe(read(), loop).result(SCRAPE_SECONDS)

    registry = CollectorRegistry()
    # Described by nothing: registering would scrape it once, from the loop itself, which would wait for itself.
    registry.register(_Undescribed(read_from_thread))
    server, thread = _started(host, port, registry, option)
    try:
        yield server.server_port
    finally:
        await asyncio.to_thread(_stop, server, thread)


class _Undescribed(ScalerMetrics):
    def describe(self) -> Iterable[Metric]:
        return ()


def _started(host: str, port: int, registry: CollectorRegistry, option: str) -> tuple[WSGIServer, threading.Thread]:
    try:
        return start_http_server(port, host, registry)
    except OSError as error:
        used = f"something else listens there: stop what does, or give another {option}"
        taken = used if error.errno == errno.EADDRINUSE else str(error)
        raise Misconfigured(f"{option} {host}:{port} can't be served: {taken}", field=option) from error


def _stop(server: WSGIServer, thread: threading.Thread) -> None:
    server.shutdown()
    server.server_close()
    thread.join()
