"""Each alert fires when it should and at no other time, by the tests that `promtool` runs, too (`task test:alerts`).

Here by an evaluation of our own: `promtool` takes minutes to build. Words are compared by that one only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from tests.support.programs.alerts import TESTS, rules
from tests.support.programs.promql_values import Labels, Series, evaluate

STEP = 60.0
CASES: list[dict[str, Any]] = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
RULES = {rule["alert"]: rule for rule in rules()}


def seconds(span: str) -> float:
    """Of `1h30m` or `0`."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", span))


def firing(rule: dict[str, Any], series: Iterable[Series], at: float) -> set[Labels]:
    """What fires at that second, when the rule is evaluated each minute."""
    since: dict[Labels, float] = {}
    series, patience, moment = list(series), seconds(rule.get("for", "0")), 0.0
    while True:
        active = evaluate(rule["expr"], series, moment)
        since = {labels: since.get(labels, moment) for labels in active}
        if moment >= at:
            severity = ("severity", rule["labels"]["severity"])
            return {labels | {severity} for labels, began in since.items() if moment - began >= patience}
        moment += STEP


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_alert_fires_when_it_should_and_at_no_other_time(case: dict[str, Any]) -> None:
    interval = seconds(case["interval"])
    series = [Series.of(each["series"], str(each["values"]), interval) for each in case["input_series"]]
    for moment in case["alert_rule_test"]:
        wanted = {frozenset(alert["exp_labels"].items()) for alert in moment.get("exp_alerts") or []}
        found = firing(RULES[moment["alertname"]], series, seconds(moment["eval_time"]))
        assert found == wanted, f"{moment['alertname']} at {moment['eval_time']}"


def test_a_sequence_is_written_as_promtool_writes_it() -> None:
    read = Series.of('a{b="c",d="e"}', "0+2x2 7 5x1 9-1x1", 60)
    assert (read.name, read.labels) == ("a", {("b", "c"), ("d", "e")})
    assert list(read.samples.items()) == [(0, 0), (60, 2), (120, 4), (180, 7), (240, 5), (300, 5), (360, 9), (420, 8)]


@pytest.mark.parametrize(
    ("expression", "values", "at", "wanted"),
    [
        pytest.param("a", "5 6", 359, 6, id="a sample counts for five minutes"),
        pytest.param("a", "5 6", 361, None, id="and no longer"),
        pytest.param("increase(a[5m])", "0+10x10", 600, 50, id="the increase of a counter"),
        pytest.param("increase(a[5m])", "10 20 5 15 25 35", 300, 43.75, id="over a reset"),
        pytest.param("rate(a[10m])", "0+60x10", 600, 1, id="the rate of a counter"),
        pytest.param(
            "increase(a[10m])", "1x5 4x5", 600, 10 / 3, id="one step, extrapolated to the begin of the window"
        ),
        pytest.param("increase(a[10m])", "0x5 3x5", 600, 3, id="but never to below zero"),
        pytest.param("deriv(a[5m])", "0+60x10", 600, 1, id="the slope of a gauge"),
        pytest.param("a > 5", "6", 0, 6, id="a comparison keeps the value"),
        pytest.param("a > 5", "5", 0, None, id="or drops it"),
        pytest.param("time() - a", "10", 0, -10, id="the time"),
    ],
)
def test_the_language_is_that_of_prometheus(expression: str, values: str, at: float, wanted: float | None) -> None:
    found = evaluate(expression, [Series.of("a", values, 60)], at)
    assert list(found.values()) == ([] if wanted is None else [pytest.approx(wanted)])


def test_a_quantile_lies_within_its_bucket() -> None:
    buckets = {"0.1": "50", "1": "90", "+Inf": "100"}
    series = [Series.of(f'a{{le="{bound}"}}', count, 60) for bound, count in buckets.items()]
    found = {part: evaluate(f"histogram_quantile({part}, a)", series, 0)[frozenset()] for part in (0.5, 0.9, 0.7, 0.99)}
    assert found == {0.5: pytest.approx(0.1), 0.9: pytest.approx(1), 0.7: pytest.approx(0.55), 0.99: 1}
    assert not any(map(math.isnan, found.values()))


@pytest.mark.parametrize("expression", ["absent(a)", "a > bool 1", "a[5m:1m]", "a / on (b) c", "-a", "stddev(a)"])
def test_what_is_not_known_is_refused(expression: str) -> None:
    with pytest.raises((NotImplementedError, KeyError)):
        evaluate(expression, [Series.of("a", "1", 60), Series.of("c", "1", 60)], 0)
