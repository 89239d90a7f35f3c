"""What a cell is, and how one is run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.bench import Bench
from tests.faults.ledger import Row
from tests.faults.partitions.network import Network
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
        lacks: says why this machine can't play it, and nothing where it can.
        apart: do its processes have hosts of their own, on a network that can fail?
    """

    name: str
    fault: str
    phase: str
    duplicates: str
    run: Callable[[Bench], Awaitable[None]]
    short: bool = True
    server: MakeServer = plain
    bound: float = 45.0
    lacks: Callable[[], str] | None = None
    apart: bool = False

    @property
    def folder(self) -> str:
        """Of its module: those of one folder have a table, and a task."""
        return self.run.__module__.rpartition(".")[0]


CELLS: dict[str, Cell] = {}


def cell(
    name: str,
    fault: str,
    phase: str,
    duplicates: str = "none",
    *,
    short: bool = True,
    server: MakeServer = plain,
    bound: float = 45.0,
    lacks: Callable[[], str] | None = None,
    apart: bool = False,
) -> Callable[[Callable[[Bench], Awaitable[None]]], Callable[[Bench], Awaitable[None]]]:
    """Register a coroutine as a cell."""

    def register(run: Callable[[Bench], Awaitable[None]]) -> Callable[[Bench], Awaitable[None]]:
        CELLS[name] = Cell(name, fault, phase, duplicates, run, short, server, bound, lacks, apart=apart)
        return run

    return register


@contextmanager
def _network(wanted: Cell, seed: int) -> Iterator[Network | None]:
    if not wanted.apart:
        yield None
        return
    network = Network((*Cluster.NAMES, "receive", "forward", "forward-2", "operator"), seed)
    try:
        network.start()
        yield network
    finally:
        network.stop()


async def play(
    wanted: Cell, seed: int, size: float = 1.0, keep: Path | None = None, watch: Callable[[Bench], None] | None = None
) -> Row:
    """Run one cell and draw up its row.

    Args:
        keep: where the processes' logs are to stay.
        watch: called with the cell's bench before it begins.
    """
    row = Row(wanted.name, seed)
    with tempfile.TemporaryDirectory(prefix="headrace-faults-") as temporary:
        directory = (keep or Path(temporary)) / f"{wanted.name}-{seed}"
        directory.mkdir(parents=True)
        began = time.monotonic()
        with _network(wanted, seed) as network:
            server = wanted.server(directory) if network is None else Cluster(directory, network.site)
            async with Bench(directory, row, server, size, network) as bench:
                if watch is not None:
                    watch(bench)
                await wanted.run(bench)
                await bench.quiet(wanted.bound * max(1.0, min(size, 3.0)))
                await bench.account()
                row.seconds = round(time.monotonic() - began, 1)
    return row
