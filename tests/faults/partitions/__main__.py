"""`python -m tests.faults.partitions`: cells that need root, 100,000 events each, and their part of `docs/faults.md`.

Partitions, slow links, clocks and frozen disks. A run may end at any moment, and the next one goes on with the first
cell that has no row yet; the rows are in a file until `--again` forgets them. Short versions of some run in CI.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import platform
import sys
import traceback
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.io.process import log
from tests.faults import report
from tests.faults.bench import Bench
from tests.faults.cell import Cell, play
from tests.faults.cells import CELLS
from tests.faults.ledger import Row
from tests.faults.partitions.cells_cables import EVENTS

STATE = Path.home() / ".cache" / "headrace" / "partitions.json"
NAMES = [name for name, cell in CELLS.items() if cell.folder == "tests.faults.partitions"]
PROGRESS_SECONDS = 10.0
# Where the part stands before it is first written.
BEHIND = "## Seeds that failed first"

HEAD = """<!-- partitions: written by `task faults:partitions` -->
## Partitions, slow links, clocks and frozen disks

Written by `task faults:partitions` on {date}, with {events:,} events a cell at up to 1,000 a second. {kept}
Columns and promise are those above; every stream has three replicas, two `forward`s and a scaler serve one subscriber,
and each fiftieth event is refused once. In each cell the fault strikes up to four times. For partitions each process
has a host of its own: a network name space, with a cable to a switch that loses or delays packets per direction (Linux
{kernel}, without `netem`). All processes are unmodified: their clocks are set off in the vDSO that the kernel maps
into them, and disks are frozen as for a snapshot. They need root: elsewhere the cells say why they are not played.
"""


def main() -> int:
    asked = _arguments()
    log.configure("critical", plain=True)
    logging.getLogger("nats").setLevel(logging.CRITICAL)
    rows = {} if asked.again else _read(asked.state, asked.events)
    names = asked.cell or NAMES
    for number, name in enumerate(names, 1):
        if name not in rows or rows[name].faults():
            rows[name] = _play(name, asked)
            _keep(asked.state, asked.events, rows)
        print(f"[{number}/{len(names)}] {name}: {report.line(rows[name])}", flush=True)
    if asked.write:
        print(f"written: {write([rows[name] for name in NAMES if name in rows], asked.events)}")
    failed = [name for name in names if rows[name].faults()]
    print(f"{len(names) - len(failed)} of {len(names)} kept the promise")
    return 1 if failed else 0


def write(rows: list[Row], events: int) -> Path:
    """Replace the part, and nothing else of the page."""
    failed = [row.cell for row in rows if row.faults()]
    kept = f"{len(rows) - len(failed)} of {len(rows)} cells kept the promise."
    if failed:
        kept += f" Not kept: {', '.join(failed)}."
    if missing := len(NAMES) - len(rows):
        kept += f" {missing} more were not played."
    shorter = {row.sent for row in rows} - {events, 0}
    if shorter:
        kept += (
            f"\nSome were played with {', '.join(map(str, sorted(shorter)))} events only, as in CI, and struck once."
        )
    head = HEAD.format(date=datetime.now(UTC).date(), events=events, kept=kept, kernel=platform.release())
    part = "\n".join([head, *report.sections(rows), "<!-- /partitions -->\n"])
    page = report.PAGE.read_text(encoding="utf-8")
    old = report.partition_part(page)
    page = page.replace(old, part) if old else page.replace(BEHIND, f"{part}\n{BEHIND}")
    report.PAGE.write_text(page, encoding="utf-8")
    return report.PAGE


def _play(name: str, asked: argparse.Namespace) -> Row:
    cell = CELLS[name]
    assert cell.lacks is not None
    if why := cell.lacks():
        return Row(name, asked.seed, notes=[f"FAILED: it can't be played on this machine: {why}"])
    try:
        return asyncio.run(_watched(cell, asked))
    except Exception as error:  # noqa: BLE001  # one cell's trouble is a row, and the others still run
        traceback.print_exc()
        return Row(name, asked.seed, notes=[f"FAILED: {error!r}"])


async def _watched(cell: Cell, asked: argparse.Namespace) -> Row:
    watching: list[asyncio.Task[None]] = []

    def watch(bench: Bench) -> None:
        watching.append(asyncio.create_task(_tell(bench)))

    try:
        return await play(cell, asked.seed, asked.events / EVENTS, asked.keep, watch)
    finally:
        for task in watching:
            task.cancel()


async def _tell(bench: Bench) -> None:
    """One line now and then."""
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        for lane in bench.lanes:
            print(
                f"  {bench.row.cell}: {len(lane.sent.accepted):,} accepted, {len(lane.arrivals):,} arrived", flush=True
            )


def _read(state: Path, events: int) -> dict[str, Row]:
    """Rows of the same size, of the code as it is committed now or was."""
    with suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads(state.read_text(encoding="utf-8"))
        if found["events"] == events:
            return {name: Row(**row) for name, row in found["rows"].items() if name in CELLS}
    return {}


def _keep(state: Path, events: int, rows: dict[str, Row]) -> None:
    state.parent.mkdir(parents=True, exist_ok=True)
    kept = {"events": events, "rows": {name: asdict(row) for name, row in rows.items()}}
    new = state.with_suffix(".new")
    new.write_text(json.dumps(kept), encoding="utf-8")
    new.replace(state)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.partitions", description=__doc__)
    parser.add_argument("--cell", action="append", choices=NAMES, metavar="NAME", help="this one only; may repeat")
    parser.add_argument("--events", type=int, default=100_000, help="of each cell")
    parser.add_argument("--seed", type=int, default=1, help="of the schedules")
    parser.add_argument("--state", type=Path, default=STATE, metavar="FILE", help="the rows so far")
    parser.add_argument("--again", action="store_true", help="forget the rows so far")
    parser.add_argument("--write", action="store_true", help="write what there is into docs/faults.md")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the processes' logs there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
