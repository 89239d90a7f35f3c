"""What the operator tells Prometheus: backlog, windows and leases of every consumer, and what became of its events.

Every lease tells the scaler, while it is open, how each of its events ended, so this one endpoint counts them all, also
those of a `forward` that has long been scaled to zero. The families are made when somebody scrapes, and cost nothing in
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from headrace.core import metric_families as families
from headrace.core.metrics import Family, FamilyKind
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling.storage import Storage

LABELS = families.SUBSCRIPTION

Families = Callable[[], Iterable[Metric]]
"""Makes metric families anew at each scrape."""
Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""Gives each consumer's `headrace_operator.scaling.served_streams.ScaledConsumer.row`."""

GAUGES = {
    "pending": families.PENDING,
    "ack_pending": families.ACK_PENDING,
    "max_ack_pending": families.MAX_ACK_PENDING,
    "window_full": families.WINDOW_FULL,
    "open": families.OPEN,
}
COUNTERS = {"opened": families.OPENED, "failures": families.FAILURES}


def of_consumers(rows: Rows) -> Iterator[Metric]:
    """The families of one scaler; a consumer's counters begin anew with the consumer and with the scaler."""
    labelled = [(tuple(str(row[label]) for label in LABELS), row) for row in rows()]
    for key, family in (GAUGES | COUNTERS).items():
        metric = _empty(family)
        for labels, row in labelled:
            metric.add_metric(labels, float(row[key]))
        yield metric
    events = _empty(families.EVENTS)
    for labels, row in labelled:
        for outcome, count in row["events"].items():
            events.add_metric((*labels, outcome), float(count))
    yield events


def of_storage(storage: Storage) -> Iterator[Metric]:
    """The numbers of streams and aside streams, ages included, as they were read last."""
    for family, values in storage.latest().items():
        metric = _empty(family)
        for labels, value in values.items():
            metric.add_metric(labels, value)
        yield metric


def of_connections(calls: HookCalls, *, connected: bool) -> Iterator[Metric]:
    """The calls of `reconcile`, and whether NATS is there."""
    took = HistogramMetricFamily(families.HOOK_SECONDS.name, families.HOOK_SECONDS.words, labels=("verb", "result"))
    for labels, timings in list(calls.timings.items()):
        bounds = [*(str(bound) for bound in timings.bounds), "+Inf"]
        took.add_metric(labels, list(zip(bounds, accumulate(timings.counts), strict=True)), timings.total)
    yield took
    nats = _empty(families.SCALER_CONNECTED)
    nats.add_metric((), float(connected))
    yield nats


def of_operator(gauges: Mapping[str, float], calls: Mapping[str, int], types: Mapping[str, int]) -> Iterator[Metric]:
    """The operator's own numbers.

    Args:
        gauges: by the part of their name after `headrace_operator_`.
        calls: requests to the API server by verb.
        types: new kinds of events by what became of them.
    """
    for name, value in gauges.items():
        yield GaugeMetricFamily(f"headrace_operator_{name}", name.replace("_", " "), value=value)
    counter = CounterMetricFamily("headrace_operator_api_requests", "Requests to the API server", labels=("verb",))
    for verb, count in calls.items():
        counter.add_metric((verb,), count)
    yield counter
    kinds = CounterMetricFamily("headrace_operator_event_types", "New kinds of events, by outcome", labels=("outcome",))
    for outcome, count in types.items():
        kinds.add_metric((outcome,), count)
    yield kinds


def _empty(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    if family.kind is FamilyKind.COUNTER:
        return CounterMetricFamily(family.name, family.words, labels=family.labels)
    return GaugeMetricFamily(family.name, family.words, labels=family.labels)
