"""What a cell is, and how one is run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.bench import Bench
from tests.faults.ledger import Row
from tests.faults.processes import Cluster, own_port
from tests.support.nats.nats_server import NatsServer

MakeServer = Callable[[Path], NatsServer | Cluster]


def plain(directory: Path) -> NatsServer:
    return NatsServer(directory / "nats", port=own_port())


@dataclass(frozen=True)
class Cell:
    """One fault.

    Attributes:
        name: for `--cell`.
        fault: in words, for the table; `phase`: while what.
        duplicates: why how many events may come twice.
        short: does the short version, which CI runs, have it?
        bound: seconds after which whatever is not settled counts as out of time.
    """

    name: str
    fault: str
    phase: str
    duplicates: str
    run: Callable[[Bench], Awaitable[None]]
    short: bool = True
    server: MakeServer = plain
    bound: float = 45.0


CELLS: dict[str, Cell] = {}


def cell(
    name: str, fault: str, phase: str, duplicates: str = "none", *, short: bool = True, server: MakeServer = plain
) -> Callable[[Callable[[Bench], Awaitable[None]]], Callable[[Bench], Awaitable[None]]]:
    """Register a coroutine as a cell."""

    def register(run: Callable[[Bench], Awaitable[None]]) -> Callable[[Bench], Awaitable[None]]:
        CELLS[name] = Cell(name, fault, phase, duplicates, run, short, server)
        return run

    return register


async def play(wanted: Cell, seed: int, size: float = 1.0, keep: Path | None = None) -> Row:
    """Run one cell and draw up its row.

    Args:
        keep: where the processes' logs are to stay.
    """
    row = Row(wanted.name, seed)
    with tempfile.TemporaryDirectory(prefix="headrace-faults-") as temporary:
        directory = (keep or Path(temporary)) / f"{wanted.name}-{seed}"
        directory.mkdir(parents=True)
        began = time.monotonic()
        async with Bench(directory, row, wanted.server(directory), size) as bench:
            await wanted.run(bench)
            await bench.quiet(wanted.bound * max(1.0, size))
            await bench.account()
            row.seconds = round(time.monotonic() - began, 1)
    return row
