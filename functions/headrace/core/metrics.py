"""Metrics as values: the counts of a process, added up over processes, and as Prometheus reads them.

A hot path counts with plain integers; a scrape makes a `Snapshot` of them. Knows neither clocks nor sockets.
`headrace.core.metric_families` lists the metrics.

Our own, and not prometheus-client: a function would import it at every start from zero for the sake of the text format,
and its way of adding up processes needs files (ADR 028). The operator, which has it anyway, uses it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# The bounds of Knative's own dispatchers, so that their histograms and ours can be added up.
KNATIVE_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
# Storing an event takes less than a millisecond on a quiet day.
SHORT_BOUNDS = (0.0005, 0.001, 0.0025, *KNATIVE_BOUNDS)
# Leases last 20 s, and subscribers may take minutes.
LONG_BOUNDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)


class FamilyKind(StrEnum):
    """How Prometheus is to understand a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Fold(StrEnum):
    """How the values of several processes become one. Counters and histograms always add up."""

    SUM = "sum"
    LEAST = "least"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as in Prometheus; a counter's ends with `_total`.
        words: what it counts, in one sentence.
        bounds: upper bounds of a histogram's buckets, seconds, without the infinite one.
    """

    name: str
    kind: FamilyKind
    words: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    fold: Fold = Fold.SUM


class Timings:
    """The observations of one histogram."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        # One count for each bucket alone, the infinite bucket last.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def took(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram's value: the count of each bucket alone, and the sum of all observations."""

    counts: tuple[int, ...]
    total: float

    @classmethod
    def of(cls, timings: Timings) -> Distribution:
        return cls(tuple(timings.counts), timings.total)


Value: TypeAlias = "float | Distribution"
Labels: TypeAlias = tuple[str, ...]
Series: TypeAlias = Mapping[Labels, Value]
Snapshot: TypeAlias = Mapping[str, Series]
"""Values by the family's name, then by the values of its labels in their order."""


def added(snapshots: Iterable[Snapshot], families: Mapping[str, Family]) -> dict[str, dict[Labels, Value]]:
    """The totals over several processes; a value that no family describes is left out."""
    found: dict[str, dict[Labels, Value]] = {}
    for snapshot in snapshots:
        for name, series in snapshot.items():
            family = families.get(name)
            if family is None:
                continue
            total = found.setdefault(name, {})
            for labels, value in series.items():
                total[labels] = value if labels not in total else _folded(total[labels], value, family.fold)
    return found


def text(snapshot: Snapshot, families: Iterable[Family]) -> bytes:
    """The text format 0.0.4, families in the given order; a family without a value is left out."""
    lines: list[str] = []
    for family in families:
        series = snapshot.get(family.name)
        if not series:
            continue
        lines += [f"# HELP {family.name} {_words(family.words)}", f"# TYPE {family.name} {family.kind}"]
        for labels, value in sorted(series.items(), key=lambda item: item[0]):
            pairs = list(zip(family.labels, labels, strict=True))
            if isinstance(value, Distribution):
                lines += _buckets(family, pairs, value)
            else:
                lines.append(f"{family.name}{_braces(pairs)} {value}")
    return "".join(f"{line}\n" for line in lines).encode()


def _folded(one: Value, other: Value, fold: Fold) -> Value:
    if isinstance(one, Distribution) or isinstance(other, Distribution):
        assert isinstance(one, Distribution), "of one family"
        assert isinstance(other, Distribution), "of one family"
        counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
        return Distribution(counts, one.total + other.total)
    return min(one, other) if fold is Fold.LEAST else one + other


def _buckets(family: Family, pairs: list[tuple[str, str]], value: Distribution) -> list[str]:
    lines, so_far = [], 0
    for bound, count in zip((*(str(bound) for bound in family.bounds), "+Inf"), value.counts, strict=True):
        so_far += count
        lines.append(f"{family.name}_bucket{_braces([*pairs, ('le', bound)])} {so_far}")
    return [*lines, f"{family.name}_sum{_braces(pairs)} {value.total}", f"{family.name}_count{_braces(pairs)} {so_far}"]


def _braces(pairs: Iterable[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in pairs)
    return f"{{{inside}}}" if inside else ""


def _quoted(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _words(words: str) -> str:
    return words.replace("\\", r"\\").replace("\n", r"\n")
