"""`python -m bench`: run every row in turn, some rounds of it, and print the medians.

CPU per event is the number to compare: load generator, functions, NATS and sink share the machine's cores, so
events per second depend on all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from bench import chart, nats_floor, report, stage
from bench.row import NotMeasured, Row
from bench.rows import rows
from bench.sample import Sample
from infra import document_place

WARM_UP_EVENTS = 2_000
CHART = Path("docs/bench/cpu-per-event.svg")
PAGE = Path("docs/bench/README.md")


def main() -> None:
    arguments = _arguments()
    chosen = [row for row in rows() if not arguments.only or row.name in _with_floors(arguments.only)]
    facts = report.machine()
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        stage.opened(Path(directory)) as running,
    ):
        unmeasured = _warm_up(running, chosen, arguments.events)
        measured = [row for row in chosen if row.name not in unmeasured]
        samples = _measured(running, measured, arguments.events, arguments.rounds)
    found = report.results(measured, samples)
    if arguments.json:
        for result in found:
            print(json.dumps(report.as_json(result, facts)))
    else:
        machine = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
        text = f"{machine}\n{report.table(found)}\n\n{report.legend(chosen, unmeasured)}"
        print(text)
        if arguments.write:
            _write("bench", text)
            clients = "\n".join(nats_floor.table(nats_floor.run()))
            print(clients)
            _write("clients", f"{machine}\n{clients}")
            arguments.chart = arguments.chart or CHART
    if arguments.chart:
        arguments.chart.parent.mkdir(parents=True, exist_ok=True)
        arguments.chart.write_text(chart.svg(found, facts), encoding="utf-8")
        _progress(f"chart written to {arguments.chart}")


def _warm_up(running: stage.Stage, chosen: list[Row], events: int) -> dict[str, str]:
    """Each row once, shortly; why those can't be measured that can't, by name."""
    unmeasured = {}
    for row in chosen:
        _progress(f"warming up {row.name}")
        try:
            row.measure(running, min(WARM_UP_EVENTS, events))
        except NotMeasured as why:
            unmeasured[row.name] = str(why)
    return unmeasured


def _measured(running: stage.Stage, chosen: list[Row], events: int, rounds: int) -> dict[str, list[Sample]]:
    samples: defaultdict[str, list[Sample]] = defaultdict(list)
    for number in range(1, rounds + 1):
        for row in chosen:
            sample = row.measure(running, max(1, int(events * row.share)))
            samples[row.name].append(sample)
            cost = sample.cpu_seconds / sample.events * 1e6
            _progress(f"round {number} of {rounds}: {row.name} {cost:.1f} µs/event")
    return samples


def _with_floors(names: list[str]) -> set[str]:
    """The named rows and what they are held against."""
    return {*names, *(row.floor for row in rows() if row.name in names and row.floor)}


def _write(name: str, text: str) -> None:
    """Put a table into its place on the page, as a block of code."""
    page = document_place.filled(PAGE.read_text(encoding="utf-8"), name, f"```\n{text.rstrip()}\n```")
    PAGE.write_text(page, encoding="utf-8")


def _progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON lines, one per row, instead of a table")
    parser.add_argument("--events", type=int, default=20_000, help="events per row and round (default 20000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument("--only", action="append", choices=[row.name for row in rows()], help="this row; repeatable")
    parser.add_argument("--chart", nargs="?", type=Path, const=CHART, help=f"draw a bar chart (default {CHART})")
    parser.add_argument(
        "--write", action="store_true", help="into docs/bench: table, chart, and the cost of NATS clients"
    )
    arguments = parser.parse_args()
    if arguments.write and (arguments.only or arguments.json):
        parser.error("--write writes all rows as a table: leave --only and --json out")
    return arguments


if __name__ == "__main__":
    main()
