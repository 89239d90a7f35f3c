"""`python -m bench.power`: what it costs that an accepted event outlives a loss of power.

Events are posted to `receive` in a closed loop, at each `sync_interval`, with one server and with three. All of them
are on this machine and on one disk, which is measured, too: `always` costs what a sync of it costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import psutil

from bench import chart, processes, report
from bench.processes import cpu_seconds
from bench.stage import load
from infra import document_place
from tests.support.nats.nats_cluster import NatsCluster
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats

PAGE = Path("docs/power.md")
CHART = Path("docs/bench/power.svg")
SYNCS = ("", "1s", "always")
REPLICAS = (1, 3)
# Events of a round, by the connections that send them.
EVENTS = {1: 500, 32: 4_000, 256: 8_000}
SYNCED = 300


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the rounds."""

    sync: str
    replicas: int
    connections: int
    per_second: float
    p50_ms: float
    p99_ms: float
    nats_us: float

    def line(self) -> str:
        return (
            f"| {f'`{self.sync}`' if self.sync else 'default, 2 min'} | {self.replicas} | {self.connections} "
            f"| {self.per_second:,.0f} | {self.p50_ms:.1f} | {self.p99_ms:.1f} | {self.nats_us:.0f} |"
        )


HEAD = (
    "| sync_interval | replicas | connections | events/s | p50 ms | p99 ms | NATS CPU µs/event |\n" + "|---" * 7 + "|"
)


def measured(directory: Path, sync: str, replicas: int, rounds: int) -> Iterator[Cost]:
    """One setting, at each number of connections."""
    with _serving(directory, sync, replicas) as (url, pids):
        load(url, 1_000)
        for connections, events in EVENTS.items():
            found = []
            for _ in range(rounds):
                before = sum(map(cpu_seconds, pids))
                one = load(url, events, connections=connections)
                cpu = sum(map(cpu_seconds, pids)) - before
                found.append((events / one["seconds"], one["p50_ms"], one["p99_ms"], cpu / events * 1e6))
            yield Cost(sync, replicas, connections, *map(statistics.median, zip(*found, strict=True)))


@contextmanager
def _serving(directory: Path, sync: str, replicas: int) -> Iterator[tuple[str, list[int]]]:
    """A `receive` on servers with this setting: the URL of a channel, and the servers' processes."""
    store = f"sync_interval: {sync}" if sync else ""
    nats: NatsCluster | NatsServer
    nats = NatsCluster(directory, store=store) if replicas > 1 else NatsServer(directory, store=store)
    try:
        nats.start()
        path = asyncio.run(_channel(nats.url.split(",")[0], replicas))
        environment = {"NATS_URL": nats.url, "HEADRACE_TOKEN": "of-the-bench"}
        receive = processes.function("receive", directory, environment)
        try:
            servers = nats.servers if isinstance(nats, NatsCluster) else [nats]
            yield receive.url + path, [server.pid for server in servers]
        finally:
            receive.stop()
    finally:
        nats.kill()


async def _channel(url: str, replicas: int) -> str:
    async with Nats(url) as nats:
        return (await nats.make_channel(num_replicas=replicas)).path


def drawn(costs: Sequence[Cost], disk: str, about: str) -> str:
    """The rates at 32 connections."""
    found = [
        (f"{cost.sync or '2 min'}, {cost.replicas} replica{'s' * (cost.replicas > 1)}", cost.per_second, cost.replicas)
        for cost in costs
        if cost.connections == 32
    ]
    colours = {1: chart.OURS, 3: chart.THEIRS}
    title = "Accepted events per second, by sync_interval (longer is better)"
    bars = [(name, rate, colours[replicas]) for name, rate, replicas in found]
    return chart.rates(title, f"32 connections; {disk}", about, bars)


def disk(directory: Path) -> str:
    """The file system that is measured, and how long it takes to sync a write of 1 KiB."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if directory.is_relative_to(mount.mountpoint)]
    mount = max(mounts, key=lambda one: len(one.mountpoint))
    took = []
    with (directory / "synced").open("wb") as file:
        for _ in range(SYNCED):
            began = time.perf_counter()
            file.write(bytes(1024))
            file.flush()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    p50, p99 = statistics.median(took), sorted(took)[SYNCED * 99 // 100]
    return f"{mount.fstype} on {mount.device}, a sync of 1 KiB takes {p50:.2f} ms (p99 {p99:.2f} ms)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.power", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument("--directory", help="on the disk that is to be measured (default: that of temporary files)")
    parser.add_argument("--write", action="store_true", help="into docs/power.md, with a chart")
    asked = parser.parse_args()
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.machine().items())
    costs = []
    with tempfile.TemporaryDirectory(prefix="headrace-power-", dir=asked.directory) as directory:
        measured_on = disk(Path(directory))
        for number, (replicas, sync) in enumerate(product(REPLICAS, SYNCS)):
            for cost in measured(Path(directory) / str(number), sync, replicas, asked.rounds):
                print(cost.line(), file=sys.stderr, flush=True)
                costs.append(cost)
    text = "\n".join([f"{facts}; {measured_on}\n", HEAD, *(cost.line() for cost in costs)])
    print(text)
    if asked.write:
        PAGE.write_text(document_place.filled(PAGE.read_text(encoding="utf-8"), "power", text), encoding="utf-8")
        CHART.write_text(drawn(costs, measured_on, facts), encoding="utf-8")


if __name__ == "__main__":
    main()
