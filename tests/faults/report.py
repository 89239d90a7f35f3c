"""The table: one line of progress per cell, and `docs/faults.md` from a whole run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import psutil

from infra.programs.nats_server import binary
from tests.faults import stranger_table
from tests.faults.cells import CELLS
from tests.faults.ledger import Row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"
_PARTITIONS = re.compile(r"<!-- partitions: .*?<!-- /partitions -->\n", re.DOTALL)
BY_HAND = Path(__file__).with_name("findings.md")

HEAD = """# What faults do to events

Written by `task faults` on {date}, {run}; don't edit (the last part is `tests/faults/findings.md`). {kept}

The promise: an event that was answered with 202 reaches its subscriber (and the reply address, if the subscriber
answers with an event), or the dead letter sink, or the parked events. Each row is one cell: real processes on loopback
(nats-server with file storage, `receive`, `forward`, sinks, a scaler), broken by a schedule that the seed decides. A
ledger compares what producers were told with what the others hold in the end.

* **lost** must be 0; where the server itself discards, it must be what the server says it has discarded (in brackets).
  Where power fails and not every write is synced, the brackets hold what was lost; [power.md](power.md) says why.
* **again** counts events that came twice to a receiver that had taken them already, or that found two fates (delivered
  and parked, say). In brackets is the most that the cell's faults make unavoidable: not more than so many, and only
  events that were in somebody's hands when a fault struck. Retries after a refusal are no duplicates.
* **late** counts events that were not settled {bound:.0f} s after the last fault ({late:.0f} s in a long run).
* Producers send an event without an answer again, under its own id. SIGKILL is not a loss of power: data that
  nats-server had written is still in the page cache. Cells that begin with `power` lose that, too.

Python {python}, nats-server {nats}, uvicorn {uvicorn}; Linux {kernel}, {cpus} CPUs, {memory} GiB,
shared with other work. Again, exactly so: `python -m tests.faults --seed {seed}{size}`; one cell: `--cell NAME`.
"""
COLUMNS = "cell | sent | accepted | refused | stored | delivered | dead-lettered | parked | lost | again | late | s"


def line(row: Row) -> str:
    """What the runner shows."""
    counts = (
        f"{row.accepted}/{row.sent} accepted, {row.delivered} delivered, {row.dead} dead-lettered, "
        f"{row.parked} parked, {row.lost} lost, {row.duplicated + row.twice} again (at most {row.in_hands})"
    )
    faults = row.faults()
    notes = [note for note in row.notes if not note.startswith("FAILED")]
    return "; ".join([f"{'FAILED' if faults else 'ok'} {row.seconds} s: {counts}", *notes, *faults])


def partition_part(page: str) -> str:
    """What `tests.faults.partitions` has written into a page; empty where it has not."""
    found = _PARTITIONS.search(page)
    return found[0] if found else ""


def sections(rows: list[Row]) -> list[str]:
    """A table for each module of cells, with a line of words for each cell."""
    played = {row.cell for row in rows}
    modules = groupby((name for name in CELLS if name in played), lambda name: CELLS[name].run.__module__)
    return [_section(module, list(names), rows) for module, names in modules]


def write(rows: list[Row], *, long: bool) -> Path:
    """Replace the page."""
    failed = [row for row in rows if row.faults()]
    parts = [_head(rows, failed, long=long)]
    parts += sections(rows)
    page = PAGE.read_text(encoding="utf-8")
    parts += [stranger_table.kept(page), partition_part(page)]
    parts.append(BY_HAND.read_text(encoding="utf-8"))
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    return PAGE


def _head(rows: list[Row], failed: list[Row], *, long: bool) -> str:
    kept = f"{len(rows) - len(failed)} of {len(rows)} cells kept the promise."
    if failed:
        kept += " Not kept: " + ", ".join(row.cell for row in failed) + "."
    nats = subprocess.run([binary(), "--version"], check=True, capture_output=True, text=True).stdout
    return HEAD.format(
        date=datetime.now(UTC).date(),
        run="a long run" if long else "a short run, with a third of the events",
        kept=kept,
        bound=max(CELLS[row.cell].bound for row in rows),
        late=3 * max(CELLS[row.cell].bound for row in rows),
        python=platform.python_version(),
        nats=nats.rsplit("v", 1)[-1].strip(),
        uvicorn=version("uvicorn"),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        memory=psutil.virtual_memory().total // 2**30,
        seed=rows[0].seed,
        size=" --long" if long else "",
    )


def _section(module: str, names: list[str], rows: list[Row]) -> str:
    title = (sys.modules[module].__doc__ or module).split("\n")[0].rstrip(".:")
    lines = [f"## {title}", "", f"| {COLUMNS} |", "|" + " --- |" * (COLUMNS.count("|") + 1)]
    lines += [_row(row) for name in names for row in rows if row.cell == name]
    return "\n".join([*lines, "", *(_words(name, rows) for name in names), ""])


def _row(row: Row) -> str:
    cells = [
        row.cell,
        row.sent,
        row.accepted,
        row.refused,
        row.stored,
        row.delivered,
        row.dead,
        row.parked,
        f"**{row.lost}**" + (f" ({row.discarded})" if row.discarded else ""),
        f"{row.duplicated + row.twice} ({row.in_hands})",
        row.out_of_time,
        f"{row.seconds:g}",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _words(name: str, rows: list[Row]) -> str:
    """What the fault is, while what, what may come twice and why, and what else was seen."""
    cell = CELLS[name]
    said = f"* `{name}`: {cell.fault}; while {cell.phase}. May come twice: {cell.duplicates}."
    for row in rows:
        if row.cell == name and row.notes:
            said += f" Seen: {'; '.join(row.notes)}."
    return said
