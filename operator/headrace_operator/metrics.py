"""What the operator tells Prometheus: backlog, windows and leases of every consumer, and what became of its events.

Every lease tells the scaler, while it is open, how each of its events ended, so this one endpoint counts them all, also
those of a `forward` that has long been scaled to zero. Reads the scaler's rows when it is scraped, and costs nothing in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.core import metric_families as families
from headrace.core.metrics import Family, FamilyKind
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling.storage import Storage

LABELS = families.SUBSCRIPTION

Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""Gives `headrace_operator.scaling.served_streams.ScaledConsumer.row` of each consumer."""

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


class OperatorMetrics(Collector):
    """The operator's own numbers."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]], calls: Callable[[], Mapping[str, int]]) -> None:
        """Args:
        gauges: by the part of their name after `headrace_operator_`.
        calls: requests to the API server by verb.
        """
        self._gauges = gauges
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"headrace_operator_{name}", name.replace("_", " "), value=value)
        counter = CounterMetricFamily("headrace_operator_api_requests", "Requests to the API server", labels=("verb",))
        for verb, count in self._calls().items():
            counter.add_metric((verb,), count)
        yield counter


def _empty(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    if family.kind is FamilyKind.COUNTER:
        return CounterMetricFamily(family.name, family.words, labels=family.labels)
    return GaugeMetricFamily(family.name, family.words, labels=family.labels)
