"""The table of strangers' attacks: a part of `docs/faults.md`, which the fault bench keeps when it writes the rest."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tests.faults.stranger import ATTACKS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
_PART = re.compile(r"<!-- strangers: .*?<!-- /strangers -->\n", re.DOTALL)
FUNCTIONS = ("receive", "forward", "reconcile")
# Where the part stands before it is first written.
_BEHIND = "## Seeds that failed first"

HEAD = """<!-- strangers: written by `task faults:strangers` -->
## Strangers on the wire: the memory of each function under each attack, and what it costs others

Each function is a real process in a memory cgroup of 256 MiB ({python}, Linux {kernel}, {date}).
Before any token is looked at, 20 connections attack it, or as many as the row says; those that are closed come again.
Beside them one honest client sends 100 requests a second on one connection: events to `receive`, readiness probes,
which ask NATS, to the others. The function has one of two cores; NATS, the client and the attackers, one process at
nice 10, share the other. What else the machine does only ever adds to times: so the times are those of the round with
the least of it. Cells are resident MiB at the start, at most and at the end, and the honest client's p99 in ms without
the attack and beside it. *elsewhere* is its p99 while the same strangers attack another process of the same kind, on
the function's core: what they cost the machine, which no function can spare its client. *before* is the code that
parsed ahead (ADR 053), in one round, with all on both cores. Of the honest client's events {lost} that were answered
with 202 are missing in the stream; {failed} of its requests had no good answer. The p99 beside the attack is within 3
times of the p99 alone in {within} of {count} rows; in {excused} of the others it is within 1.5 times of the p99
elsewhere.

| attack | function | MiB before | MiB now | p99 before | p99 now | p99 elsewhere |
| --- | --- | --- | --- | --- | --- | --- |
"""


class Row(Protocol):
    """An outcome."""

    function: str
    attack: str
    start: float
    peak: float
    after: float
    killed: bool
    alone: float
    elsewhere: float
    beside: float
    failed: int
    lost: int


def kept(page: str) -> str:
    """The part as it is on a page; empty where there is none."""
    found = _PART.search(page)
    return found[0] if found else ""


def write(rows: Sequence[Row], before: Sequence[Row]) -> Path:
    """Replace the part, and nothing else of the page. Cells of before that nobody gives stay as the page has them."""
    page = PAGE.read_text(encoding="utf-8")
    then = _cells_of_before(page) | {(row.attack, row.function): (_memory(row), _times(row)) for row in before}
    within = [row.beside <= 3 * row.alone for row in rows]
    head = HEAD.format(
        within=sum(within),
        count=len(rows),
        excused=sum(not good and row.beside <= 1.5 * row.elsewhere for good, row in zip(within, rows, strict=True)),
        lost=sum(row.lost for row in rows),
        failed=sum(row.failed for row in rows),
        python=f"Python {platform.python_version()}",
        kernel=platform.release(),
        date=datetime.now(UTC).date(),
    )
    lines = [_line(row, then.get((row.attack, row.function))) for row in rows]
    part = f"{head}{''.join(lines)}<!-- /strangers -->\n"
    page = page.replace(old, part) if (old := kept(page)) else page.replace(_BEHIND, f"{part}\n{_BEHIND}")
    PAGE.write_text(page, encoding="utf-8")
    return PAGE


def _cells_of_before(page: str) -> dict[tuple[str, str], tuple[str, str]]:
    """What the page says of the code before: memory and times, by attack and function."""
    names = {one.words: name for name, one in ATTACKS.items()}
    found: dict[tuple[str, str], tuple[str, str]] = {}
    attack = ""
    for line in kept(page).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) in (6, 7) and (function := cells[1].strip("`")) in FUNCTIONS:
            # The attack's words stand in the first of its rows only.
            attack = names.get(cells[0], attack)
            found[attack, function] = cells[2], cells[4]
    return found


def _line(now: Row, before: tuple[str, str] | None) -> str:
    memory, times = before or ("", "")
    cells = [
        ATTACKS[now.attack].words if now.function == "receive" else "",
        f"`{now.function}`",
        memory,
        _memory(now),
        times,
        _times(now),
        f"{now.elsewhere:.1f}",
    ]
    return f"| {' | '.join(cells)} |\n"


def _memory(row: Row) -> str:
    return f"{row.start:.0f}, **killed**" if row.killed else f"{row.start:.0f}, {row.peak:.0f}, {row.after:.0f}"


def _times(row: Row) -> str:
    return "" if row.killed else f"{row.alone:.1f} → {row.beside:.1f}"
