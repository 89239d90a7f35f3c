"""What the scaler knows, for Prometheus: backlog, windows and leases of every consumer, and what became of its events.

Every lease tells the scaler, while it is open, how each of its events ended, so this one endpoint counts them all, also
those of a `forward` that has long been scaled to zero. Reads the scaler's rows when it is scraped, and costs nothing in
between.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import accumulate
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.core import metric_families as families
from headrace.core.errors import Misconfigured
from headrace.core.metrics import Family, FamilyKind
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling.storage import Storage

LABELS = families.SUBSCRIPTION
SCRAPE_SECONDS = 5.0

Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""Gives `headrace_operator.scaling.served_streams.ServedConsumer.row` of each consumer."""

GAUGES = {
    "pending": families.PENDING,
    "ack_pending": families.ACK_PENDING,
    "max_ack_pending": families.MAX_ACK_PENDING,
    "window_full": families.WINDOW_FULL,
    "open": families.OPEN,
}
COUNTERS = {"opened": families.OPENED, "failures": families.FAILURES}


class ScalerMetrics(Collector):
    """The metric families of one scaler, made anew at each scrape."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        """All families; a consumer's counters begin anew when it, or the scaler, does."""
        rows = [(tuple(str(row[label]) for label in LABELS), row) for row in self._rows()]
        for key, family in (GAUGES | COUNTERS).items():
            metric = _empty(family)
            for labels, row in rows:
                metric.add_metric(labels, float(row[key]))
            yield metric
        events = _empty(families.EVENTS)
        for labels, row in rows:
            for outcome, count in row["events"].items():
                events.add_metric((*labels, outcome), float(count))
        yield events


class StorageMetrics(Collector):
    """Ages, streams and aside streams, as they were read last."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering would count as being asked."""
        return ()

    def collect(self) -> Iterable[Metric]:
        for family, values in self._storage.latest().items():
            metric = _empty(family)
            for labels, value in values.items():
                metric.add_metric(labels, value)
            yield metric


class ConnectionMetrics(Collector):
    """The calls of `reconcile`, and whether NATS is there."""

    def __init__(self, calls: HookCalls, connected: Callable[[], bool]) -> None:
        self._calls = calls
        self._connected = connected

    def collect(self) -> Iterable[Metric]:
        took = HistogramMetricFamily(families.HOOK_SECONDS.name, families.HOOK_SECONDS.words, labels=("verb", "result"))
        for labels, timings in list(self._calls.timings.items()):
            bounds = [*(str(bound) for bound in timings.bounds), "+Inf"]
            took.add_metric(labels, list(zip(bounds, accumulate(timings.counts), strict=True)), timings.total)
        yield took
        connected = _empty(families.SCALER_CONNECTED)
        connected.add_metric((), float(self._connected()))
        yield connected


def _empty(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    if family.kind is FamilyKind.COUNTER:
        return CounterMetricFamily(family.name, family.words, labels=family.labels)
    return GaugeMetricFamily(family.name, family.words, labels=family.labels)


@asynccontextmanager
async def served(
    host: str, port: int, stats: Callable[[], Mapping[str, Any]], option: str, more: Iterable[Collector] = ()
) -> AsyncIterator[int]:
    """Serve `/metrics` for the time of the block, on a thread of its own; gives the port.

    Args:
        port: 0 for any free one.
        stats: the scaler's; called on the loop, where nothing changes meanwhile.
        option: that named host and port, for errors.
        more: what else is told; collected on the thread.

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
    for collector in more:
        registry.register(collector)
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
