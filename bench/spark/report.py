"""From samples to medians, ratios and targets; a table for people and JSON lines for machines. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.spark.rows import Row, Sample, Target

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the rounds; CPU in µs per row. `ratios` are rows per second over another row's, in the same round.

    Attributes:
        peak_mib: the most memory that one Python process has held by the end of this row; 0 for not known.
        missed: targets that are not held, in words.
    """

    bench: str
    what: str
    rows: int
    rows_per_second: float
    python_us: float
    jvm_us: float
    nats_us: float
    peak_mib: int
    ratios: Mapping[str, float]
    missed: tuple[str, ...]


def results(rows: Sequence[Row], samples: Mapping[str, Sequence[Sample]]) -> list[Result]:
    return [_result(row, samples) for row in rows]


def _result(row: Row, samples: Mapping[str, Sequence[Sample]]) -> Result:
    own = samples[row.name]
    others = [target.to for target in row.targets if target.to is not None and target.to in samples]
    found = Result(
        bench=row.name,
        what=row.what,
        rows=own[0].rows,
        rows_per_second=round(statistics.median(map(_rate, own))),
        python_us=_us(own, [one.python_seconds for one in own]),
        jvm_us=_us(own, [one.jvm_seconds for one in own]),
        nats_us=_us(own, [one.nats_seconds for one in own]),
        peak_mib=round(max(one.peak_bytes for one in own) / MIB),
        # Of the same round, since the machine has neighbours that come and go.
        ratios={
            other: round(statistics.median(_rate(a) / _rate(b) for a, b in zip(own, samples[other], strict=True)), 2)
            for other in others
        },
        missed=(),
    )
    missed = tuple(words for target in row.targets if (words := _missed(target, found)))
    return Result(**{name: getattr(found, name) for name in Result.__slots__} | {"missed": missed})


def _missed(target: Target, found: Result) -> str:
    if target.most_python_us is not None and found.python_us > target.most_python_us:
        return f"Python at most {target.most_python_us:g} µs per row"
    if target.least_per_second is not None and found.rows_per_second < target.least_per_second:
        return f"at least {target.least_per_second:,.0f} rows/s"
    ratio = found.ratios.get(target.to or "")
    if target.least_ratio is not None and ratio is not None and ratio < target.least_ratio:
        return f"at least {target.least_ratio:g} x {target.to}"
    return ""


HEADINGS = [
    "bench",
    "rows/s",
    "x raw",
    "x nats-py",
    "Python µs/row",
    "JVM µs/row",
    "NATS µs/row",
    "peak MiB",
    "target missed",
]


def table(found: Sequence[Result]) -> str:
    cells = [HEADINGS] + [
        [
            one.bench,
            f"{one.rows_per_second:,.0f}",
            f"{one.ratios['raw']:.2f}" if "raw" in one.ratios else "",
            f"{one.ratios['nats-py']:.1f}" if "nats-py" in one.ratios else "",
            f"{one.python_us:.1f}",
            f"{one.jvm_us:.1f}" if one.jvm_us else "",
            f"{one.nats_us:.1f}",
            f"{one.peak_mib}" if one.peak_mib else "",
            "; ".join(one.missed),
        ]
        for one in found
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        middle = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]).rstrip())
    return "\n".join(lines)


def _rate(sample: Sample) -> float:
    return sample.rows / sample.seconds


def _us(samples: Sequence[Sample], seconds: Sequence[float]) -> float:
    return round(statistics.median(cpu / one.rows * 1e6 for one, cpu in zip(samples, seconds, strict=True)), 1)
