"""The values of PromQL expressions over given series: the part of the language that our alerts use.

For CI, where there is no Prometheus. `task test:alerts` holds its values against `promtool`, by the same tests of the
same rules; it refuses anything that it does not know.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import promql_parser as promql

# How old a sample may be that still counts.
LOOKBACK = 300.0

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]

_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda one, other: one / other if other else (math.nan if not one else math.inf),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_AGGREGATIONS: Mapping[str, Callable[[Iterable[float]], float]] = {"sum": sum, "max": max, "min": min}


@dataclass(frozen=True)
class Series:
    """One series: its samples by seconds, and its labels without the name."""

    name: str
    labels: Labels
    samples: Mapping[float, float]

    @classmethod
    def of(cls, notation: str, values: str, interval: float) -> Series:
        """As promtool's tests write it: `a{b="c"}` and `0+1x10 5x3`, where `x3` is three more of it."""
        name, _, inside = notation.rstrip("}").partition("{")
        found: list[float] = []
        for part in values.split():
            read = re.fullmatch(r"(-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?", part)
            assert read is not None, f"{part} is not a sequence that is known here"
            first, step, more = float(read[1]), float(read[2] or 0), int(read[3] or 0)
            found += [first + step * number for number in range(more + 1)]
        pairs = frozenset(re.findall(r'(\w+)="([^"]*)"', inside))
        return cls(name, pairs, {number * interval: value for number, value in enumerate(found)})


def evaluate(expression: str, series: Iterable[Series], at: float) -> Vector:
    """The instant vector at that second; of a scalar the one value without labels."""
    value = _value(promql.parse(expression), tuple(series), at)
    return value if isinstance(value, dict) else {frozenset(): value}


def _value(node: Any, series: tuple[Series, ...], at: float) -> Vector | float:
    match node:
        case promql.NumberLiteral():
            return float(node.val)
        case promql.ParenExpr():
            return _value(node.expr, series, at)
        case promql.VectorSelector():
            return _instant(node, series, at)
        case promql.Call():
            return _call(node, series, at)
        case promql.AggregateExpr():
            return _aggregated(node, series, at)
        case promql.BinaryExpr():
            return _binary(node, _value(node.lhs, series, at), _value(node.rhs, series, at))
        case _:
            raise NotImplementedError(f"{type(node).__name__} is not known here: {node.prettify()}")


def _selected(selector: Any, series: tuple[Series, ...]) -> list[Series]:
    def meets(labels: Mapping[str, str], matcher: Any) -> bool:
        value = labels.get(matcher.name, "")
        match str(matcher.op):
            case "MatchOp.Equal":
                return bool(value == matcher.value)
            case "MatchOp.NotEqual":
                return bool(value != matcher.value)
            case "MatchOp.Re":
                return re.fullmatch(matcher.value, value) is not None
            case "MatchOp.NotRe":
                return re.fullmatch(matcher.value, value) is None
        raise NotImplementedError(str(matcher.op))

    named = [one for one in series if one.name == selector.name]
    return [one for one in named if all(meets(dict(one.labels), each) for each in selector.matchers.matchers)]


def _instant(selector: Any, series: tuple[Series, ...], at: float) -> Vector:
    found = {}
    for one in _selected(selector, series):
        recent = [moment for moment in one.samples if at - LOOKBACK < moment <= at]
        if recent:
            found[one.labels] = one.samples[max(recent)]
    return found


def _call(node: Any, series: tuple[Series, ...], at: float) -> Vector | float:
    name = node.func.name
    if name == "time":
        return at
    if name == "histogram_quantile":
        buckets = _value(node.args[1], series, at)
        assert isinstance(buckets, dict), "buckets are a vector"
        return _quantiles(float(node.args[0].val), buckets)
    over = {"rate": _rate, "increase": _increase, "deriv": _slope}
    if name not in over:
        raise NotImplementedError(f"{name}() is not known here")
    span = node.args[0].range.total_seconds()
    found = {}
    for one in _selected(node.args[0].vector_selector, series):
        window = sorted((moment, value) for moment, value in one.samples.items() if at - span < moment <= at)
        if len(window) >= 2:
            found[one.labels] = over[name](window, at - span, at)
    return found


def _increase(window: list[tuple[float, float]], begin: float, end: float) -> float:
    """Extrapolated to the ends of the window as Prometheus does it: half an interval at most, and never below zero."""
    (first, lowest), (last, _) = window[0], window[-1]
    risen = sum(later - earlier if later >= earlier else later for (_, earlier), (_, later) in pairwise(window))
    sampled, interval = last - first, (last - first) / (len(window) - 1)
    before, after = first - begin, end - last
    if before >= interval * 1.1:
        before = interval / 2
    if risen > 0 and lowest >= 0:
        before = min(before, sampled * lowest / risen)
    if after >= interval * 1.1:
        after = interval / 2
    return risen * (sampled + before + after) / sampled


def _rate(window: list[tuple[float, float]], begin: float, end: float) -> float:
    return _increase(window, begin, end) / (end - begin)


def _slope(window: list[tuple[float, float]], _begin: float, _end: float) -> float:
    """Of the straight line with the least squares."""
    middle = sum(moment for moment, _ in window) / len(window)
    mean = sum(value for _, value in window) / len(window)
    spread = sum((moment - middle) ** 2 for moment, _ in window)
    return sum((moment - middle) * (value - mean) for moment, value in window) / spread


def _quantiles(part: float, buckets: Vector) -> Vector:
    histograms: dict[Labels, list[tuple[float, float]]] = {}
    for labels, count in buckets.items():
        pairs = dict(labels)
        bound = float(pairs.pop("le").replace("+Inf", "inf"))
        histograms.setdefault(frozenset(pairs.items()), []).append((bound, count))
    return {labels: _quantile(part, sorted(each)) for labels, each in histograms.items()}


def _quantile(part: float, buckets: list[tuple[float, float]]) -> float:
    rank = part * buckets[-1][1]
    place = next(number for number, (_, count) in enumerate(buckets) if count >= rank)
    if math.isinf(buckets[place][0]):
        return buckets[place - 1][0]
    low, under = buckets[place - 1] if place else (0.0, 0.0)
    high, count = buckets[place]
    return low + (high - low) * (rank - under) / (count - under) if count > under else high


def _aggregated(node: Any, series: tuple[Series, ...], at: float) -> Vector:
    inner = _value(node.expr, series, at)
    assert isinstance(inner, dict), "a vector is aggregated"
    kept = set(node.modifier.labels) if node.modifier is not None else set()
    groups: dict[Labels, list[float]] = {}
    for labels, value in inner.items():
        groups.setdefault(frozenset(pair for pair in labels if pair[0] in kept), []).append(value)
    return {labels: _AGGREGATIONS[str(node.op)](values) for labels, values in groups.items()}


def _binary(node: Any, left: Vector | float, right: Vector | float) -> Vector | float:
    name = str(node.op)
    if node.modifier is not None and str(node.modifier):
        raise NotImplementedError(f"{node.modifier} is not known here")
    if name in ("and", "or"):
        assert isinstance(left, dict), "sets are vectors"
        assert isinstance(right, dict), "sets are vectors"
        return {key: value for key, value in left.items() if key in right} if name == "and" else {**right, **left}
    if not isinstance(left, dict) and not isinstance(right, dict):
        return _ARITHMETIC[name](left, right)
    if isinstance(left, dict):
        labels = left.keys() & right.keys() if isinstance(right, dict) else set(left)
    else:
        labels = set(right) if isinstance(right, dict) else set()
    found = {}
    for key in labels:
        one = left[key] if isinstance(left, dict) else left
        other = right[key] if isinstance(right, dict) else right
        if name in _ARITHMETIC:
            found[key] = _ARITHMETIC[name](one, other)
        elif _COMPARISONS[name](one, other):
            found[key] = one if isinstance(left, dict) else other
    return found
