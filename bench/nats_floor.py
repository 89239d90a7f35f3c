"""`python -m bench.nats_floor`: what a NATS client costs per message, beside a protocol that can do nothing else.

Publish with ack (1 KiB, 7 headers, 512 on their way) and pull with ack (batches of 256), through the engine, through
nats-py, and through bare protocols that write pre-encoded frames. The floor of publishing gives each publisher a future
to await, or a callback to be told, as any client must; `bare` only counts the answers, so its figure is the cost of the
loop and the kernel. In turn in one run on uvloop, each round in a process of its own; CPU is of the client's process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from bench.nats_clients import PULLS, ROWS, WINDOW, prepare
from headrace.io.process import log
from tests.support.nats.nats_server import NatsServer

MESSAGES, ROUNDS = 51_200, 5
TRIES = 5
ROUND_SECONDS = 120


async def _round(row: str, url: str, messages: int) -> None:
    log.configure("warning")
    await prepare(url, messages if row in PULLS else WINDOW)
    began = time.perf_counter()
    cpu = await ROWS[row][1](url, messages)
    print(json.dumps({"cpu_seconds": cpu, "seconds": time.perf_counter() - began}))


def measure(url: str, messages: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """All rows in turn, that many times."""
    found: dict[str, list[dict[str, float]]] = {row: [] for row in ROWS}
    for number in range(rounds):
        for row in ROWS:
            found[row].append(_sample(row, url, messages))
            cost = found[row][-1]["cpu_seconds"] / messages * 1e6
            print(f"round {number + 1} of {rounds}: {row} {cost:.1f} µs", file=sys.stderr, flush=True)
    return found


def _sample(row: str, url: str, messages: int) -> dict[str, float]:
    """One round in a process of its own, made anew where the bare protocol met with what it can't do."""
    command = [sys.executable, "-m", "bench.nats_floor", "--row", row, "--url", url, "--messages", str(messages)]
    for _ in range(TRIES):
        done = subprocess.run(command, capture_output=True, text=True, timeout=ROUND_SECONDS)
        if done.returncode == 0:
            sample: dict[str, float] = json.loads(done.stdout)
            return sample
    raise RuntimeError(f"{row} failed {TRIES} times: {done.stderr}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.nats_floor", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"per row and round, a multiple of {WINDOW}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds; the median counts")
    parser.add_argument("--json", action="store_true", help="JSON lines, one per row, instead of a table")
    parser.add_argument("--row", choices=list(ROWS), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    messages = max(WINDOW, arguments.messages // WINDOW * WINDOW)
    if arguments.row:
        uvloop.run(_round(arguments.row, arguments.url, messages))
        return
    found = run(messages, arguments.rounds)
    if not arguments.json:
        print("\n".join(table(found, messages)))
        return
    for row in ROWS:
        cost, ratio, rate = _judged(row, found, messages)
        result = {"cpu_us_per_event": cost, "events_per_s": rate, "ratio_to_floor": ratio}
        print(json.dumps({"bench": row} | {name: round(value, 2) for name, value in result.items()}))


def run(messages: int = MESSAGES, rounds: int = ROUNDS) -> dict[str, list[dict[str, float]]]:
    """All rows, against a server of their own."""
    with tempfile.TemporaryDirectory(prefix="headrace-floor-") as directory:
        server = NatsServer(Path(directory)).start()
        try:
            return measure(server.url, messages, rounds)
        finally:
            server.stop()


def table(found: dict[str, list[dict[str, float]]], messages: int = MESSAGES) -> list[str]:
    lines = []
    for row, (what, _) in ROWS.items():
        cost, ratio, rate = _judged(row, found, messages)
        lines.append(f"{row:20} {cost:6.1f} µs CPU {ratio:5.2f} x {floor_of(row):14} {rate:9,.0f}/s  {what}")
    return lines


def floor_of(row: str) -> str:
    """The row that does the same work and nothing else."""
    if row in PULLS:
        return "pull-bare"
    return "bare-callback" if row == "engine-ask" else "bare-future"


def _judged(row: str, found: dict[str, list[dict[str, float]]], messages: int) -> tuple[float, float, float]:
    """CPU in µs per message, the median of its ratios to the floor round by round, and messages per second."""
    pairs = zip(found[row], found[floor_of(row)], strict=True)
    ratio = statistics.median(own["cpu_seconds"] / floor["cpu_seconds"] for own, floor in pairs)
    return _cost(found[row], messages), ratio, messages / statistics.median(s["seconds"] for s in found[row])


def _cost(samples: list[dict[str, float]], messages: int) -> float:
    return statistics.median(sample["cpu_seconds"] for sample in samples) / messages * 1e6


if __name__ == "__main__":
    main()
