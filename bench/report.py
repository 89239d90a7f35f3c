"""From samples to medians, ratios, a table for people and JSON lines for machines.

Pure but for `machine`, which asks what we run on.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from bench.row import Row
from bench.sample import Sample
from infra.programs.nats_server import binary

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Result:
    """A row's medians over the rounds; None where it has no meaning for the row."""

    bench: str
    cpu_us_per_event: float
    events_per_s: float
    ratio_to_floor: float | None
    floor: str | None
    nats_cpu_us_per_event: float
    p50_ms: float | None
    p99_ms: float | None
    peak_rss_mib: float | None
    waiting_half: float | None
    waiting_end: float | None
    go_channel_cpu_us_per_event: float | None
    events: int
    rounds: int


def results(rows: Sequence[Row], samples: Mapping[str, Sequence[Sample]]) -> list[Result]:
    """The ratio is that of the medians: CPU per event of the row over that of its floor."""
    cpu = {row.name: _median(samples[row.name], _cpu_us) for row in rows}
    return [
        Result(
            bench=row.name,
            cpu_us_per_event=round(cpu[row.name] or 0.0, 1),
            events_per_s=round(_median(samples[row.name], lambda s: s.events / s.seconds) or 0.0),
            ratio_to_floor=_ratio(cpu[row.name], cpu.get(row.floor or "")),
            floor=row.floor,
            nats_cpu_us_per_event=round(
                _median(samples[row.name], lambda s: s.nats_cpu_seconds / s.events * 1e6) or 0.0, 1
            ),
            p50_ms=_rounded(_median(samples[row.name], lambda s: s.p50_ms), 3),
            p99_ms=_rounded(_median(samples[row.name], lambda s: s.p99_ms), 3),
            peak_rss_mib=_rounded(_median(samples[row.name], lambda s: s.peak_rss and s.peak_rss / MIB), 1),
            waiting_half=_rounded(_median(samples[row.name], lambda s: s.waiting_half), 0),
            waiting_end=_rounded(_median(samples[row.name], lambda s: s.waiting_end), 0),
            go_channel_cpu_us_per_event=row.go_channel_us,
            events=samples[row.name][0].events,
            rounds=len(samples[row.name]),
        )
        for row in rows
    ]


def machine() -> dict[str, str | int]:
    """What a number must be read with."""
    server = subprocess.run([binary(), "-v"], check=True, capture_output=True, text=True).stdout
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "nats_server": server.strip().rpartition(" ")[2],
        "uvicorn": version("uvicorn"),
        "uvloop": version("uvloop"),
        "load_before": f"{os.getloadavg()[0]:.1f}",
    }


HEADINGS = [
    "bench",
    "CPU µs/event",
    "x floor",
    "events/s",
    "p50 ms",
    "p99 ms",
    "NATS µs/event",
    "peak MiB",
    "waiting",
    "Go channel µs/event *",
]


def table(found: Sequence[Result]) -> str:
    """Aligned columns, the first to the left and all numbers to the right."""
    cells = [HEADINGS] + [
        [
            result.bench,
            f"{result.cpu_us_per_event:.1f}",
            _or_blank(result.ratio_to_floor, "{:.2f}"),
            f"{result.events_per_s:,.0f}",
            _or_blank(result.p50_ms, "{:.2f}"),
            _or_blank(result.p99_ms, "{:.2f}"),
            f"{result.nats_cpu_us_per_event:.1f}" if result.nats_cpu_us_per_event else "",
            _or_blank(result.peak_rss_mib, "{:.0f}"),
            f"{result.waiting_half:,.0f}, {result.waiting_end:,.0f}" if result.waiting_end is not None else "",
            _or_blank(result.go_channel_cpu_us_per_event, "{:.1f}"),
        ]
        for result in found
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in cells
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_json(result: Result, facts: Mapping[str, str | int]) -> dict[str, object]:
    return {**asdict(result), "machine": dict(facts)}


def legend(rows: Sequence[Row], unmeasured: Mapping[str, str]) -> str:
    """What each row is.

    Args:
        unmeasured: why a row has no figures, by its name.
    """
    width = max(len(row.name) for row in rows)
    what = {row.name: row.what for row in rows}
    what |= {name: f"{what[name]}: not measured, {why}" for name, why in unmeasured.items()}
    lines = [f"{name.ljust(width)}  {words}" for name, words in what.items()]
    return "\n".join([*lines, "* measured in another run, on a machine like this one: read it as a magnitude"])


def _cpu_us(sample: Sample) -> float:
    return sample.cpu_seconds / sample.events * 1e6


def _median(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> float | None:
    values = [number for sample in samples if (number := value(sample)) is not None]
    return statistics.median(values) if values else None


def _ratio(cpu: float | None, floor: float | None) -> float | None:
    return round(cpu / floor, 2) if cpu and floor else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _or_blank(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
