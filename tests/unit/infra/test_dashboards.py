"""The dashboards and alerts as files: current, readable to Prometheus, and of metrics that there are."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import yaml

from headrace.core import metric_families as families
from headrace.core.metrics import Family, FamilyKind
from infra.generate import grafana
from infra.generate.dashboards import ALL
from infra.generate.grafana import Dashboard
from tests.support.programs import promql
from tests.support.programs.alerts import ALERTS, TESTS, rules

EACH = pytest.mark.parametrize("dashboard", ALL, ids=lambda each: each.uid)
KNOWN = {family.name: family for family in (*families.FUNCTIONS, *families.OPERATOR)}


def family_of(name: str) -> Family:
    """That a sample belongs to; a histogram has three kinds of them."""
    for suffix in ("_bucket", "_count", "_sum"):
        stem = name.removesuffix(suffix)
        if stem != name and stem in KNOWN and KNOWN[stem].kind is FamilyKind.HISTOGRAM:
            return KNOWN[stem]
    assert name in KNOWN, f"there is no metric {name}"
    assert KNOWN[name].kind is not FamilyKind.HISTOGRAM, f"{name} is a histogram: ask for its buckets, count or sum"
    return KNOWN[name]


def check(expression: str) -> None:
    found = promql.asked(expression)
    assert found, f"{expression} asks for nothing"
    for name, labels in found:
        known = {*family_of(name).labels, *promql.OF_THE_SCRAPE, *(["le"] if name.endswith("_bucket") else [])}
        assert labels <= known, f"{name} has no label {labels - known}"


@EACH
def test_the_committed_dashboard_is_what_is_generated(dashboard: Dashboard) -> None:
    assert grafana.file(dashboard).read_text() == grafana.text(dashboard), "run `task dashboards`"


@EACH
def test_every_query_is_of_metrics_and_labels_that_there_are(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        for expression, _ in panel.queries:
            check(expression)


@EACH
def test_every_legend_is_of_labels_that_the_query_leaves(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        for expression, legend in panel.queries:
            named = {part.partition("}}")[0] for part in legend.split("{{")[1:]}
            left = {label for _, labels in promql.asked(expression) for label in labels} | {
                label for name, _ in promql.asked(expression) for label in family_of(name).labels
            }
            assert named <= left, f"{panel.title}: {named - left}"


@EACH
def test_panels_have_names_of_their_own_and_do_not_overlap(dashboard: Dashboard) -> None:
    panels: list[dict[str, Any]] = json.loads(grafana.file(dashboard).read_text())["panels"]
    titles = Counter(panel["title"] for panel in panels)
    assert max(titles.values()) == 1
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert all(panel["description"] for panel in panels)


def test_every_metric_but_the_usual_ones_is_on_a_dashboard() -> None:
    shown = {
        family_of(name).name
        for each in ALL
        for panel in each.panels
        for query, _ in panel.queries
        for name, _ in promql.asked(query)
    }
    assert KNOWN.keys() - shown == {"process_resident_memory_bytes", "process_start_time_seconds"}


def test_alerts_are_of_metrics_and_labels_that_there_are() -> None:
    for rule in rules():
        check(rule["expr"])


def test_alerts_say_what_is_wrong_what_to_do_and_how_bad_it_is() -> None:
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]
        asked = promql.asked(rule["expr"])
        left = {label for name, labels in asked for label in (*labels, *family_of(name).labels)}
        named = {part.split()[0].removeprefix(".") for part in rule["annotations"]["summary"].split("$labels.")[1:]}
        assert named <= left, f"{rule['alert']}: {named - left}"


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    fires: Counter[str] = Counter()
    rests: Counter[str] = Counter()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for moment in test["alert_rule_test"]:
            (fires if moment.get("exp_alerts") else rests)[moment["alertname"]] += 1
    names = {rule["alert"] for rule in rules()}
    assert (set(fires), set(rests)) == (names, names)
    assert len(names) == len(rules()), ALERTS
