"""The metrics of several functions, on one page as Prometheus reads it."""

from __future__ import annotations

import socket

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from headrace.core import metric_families as families
from headrace.core import metrics
from headrace.core.metrics import Distribution, Snapshot
from headrace_cli.laptop import function_metrics
from headrace_operator.probes import MetricsPage
from tests.support.programs import scraping

RECEIVE: Snapshot = {
    families.WORKERS.name: {("receive",): 2.0},
    families.STORED.name: {("shop", 'or"ders\\'): 3.0},
    families.STORE_SECONDS.name: {(): Distribution((1, *[0] * 17), 0.25)},
}
FORWARD: Snapshot = {families.WORKERS.name: {("forward",): 1.0}, families.LEASES_OPEN.name: {(): 1.0}}
PROCESS = "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n"


def page(snapshot: Snapshot) -> str:
    return metrics.text(snapshot, families.FUNCTIONS).decode() + PROCESS


def test_each_family_is_there_once_and_says_whose_each_sample_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {1: page(RECEIVE), 2: page(FORWARD), 3: ""}
    monkeypatch.setattr(function_metrics, "_page", pages.__getitem__)
    registry = CollectorRegistry()
    registry.register(MetricsPage((lambda: function_metrics.ask({"receive": 1, "forward": 2, "reconcile": 3}),)))
    found = scraping.read(generate_latest(registry).decode())

    assert found.text.count("# TYPE headrace_workers ") == 1
    assert found.text.count("# TYPE process_cpu_seconds_total ") == 1
    assert {one.labels["function"]: one.value for one in found.samples if one.name == "headrace_workers"} == {
        "receive": 2,
        "forward": 1,
    }
    assert found.value("process_cpu_seconds_total", function="forward") == 1.5
    assert found.value("headrace_receive_stored_events_total", channel='or"ders\\', function="receive") == 3
    assert found.value("headrace_receive_store_duration_seconds_count", function="receive") == 1
    assert found.value("headrace_receive_store_duration_seconds_bucket", le="+Inf") == 1


def test_one_that_does_not_run_and_one_that_hangs_cost_nobody_else_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function_metrics, "ASK_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
        gone.close()
        assert list(function_metrics.ask({"forward": port, "reconcile": silent.getsockname()[1]})) == []
