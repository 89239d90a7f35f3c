"""`python -m bench.nats_floor`: what a NATS client costs per message, beside a protocol that can do nothing else.

Publish with ack (1 KiB, 7 headers, 512 on their way) and pull with ack (batches of 256), through the engine, through
nats-py, and through bare protocols that write pre-encoded frames. The floor of publishing gives each publisher a future
to await, as any client must; `bare` only counts what comes back, so it is what the loop and the kernel cost. In turn
in one run on uvloop, each round in a process of its own; CPU is of the client's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import nats
import uvloop

from bench import nats_bare
from headrace.core.nats_wire import Arrival, Pulled, header_block
from headrace.core.settings import NatsSettings
from headrace.io import log
from headrace.io.engine import Engine
from tests.support.nats_server import NatsServer

WINDOW = 512
BATCH = 256
TRIES = 5
ROUND_SECONDS = 120
SUBJECT, STREAM, CONSUMER = "bench.floor", "FLOOR", "puller"
DATA = b"x" * 1024
HEADERS = {
    "ce-specversion": "1.0",
    "ce-id": "run-1-000001",
    "ce-source": "/orders/shop",
    "ce-type": "com.example.order.created",
    "ce-time": "2026-01-01T00:00:00Z",
    "content-type": "application/json",
}
BLOCK = header_block(HEADERS)
NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}"
PULL = json.dumps({"batch": BATCH, "expires": 5_000_000_000}).encode()

Work = Callable[[str, int], Awaitable[float]]


async def _publish_with(publish: Callable[[], Awaitable[object]], messages: int) -> float:
    """CPU seconds for that many publishes, by as many workers as the window has places."""
    left = messages

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await publish()

    cpu = time.process_time()
    await asyncio.gather(*(worker() for _ in range(WINDOW)))
    return time.process_time() - cpu


async def bare_publish(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    return await link.publish_all(SUBJECT, BLOCK, DATA, messages, WINDOW)


async def future_publish(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    link.prepare(SUBJECT, BLOCK, DATA)
    return await _publish_with(link.publish, messages)


async def engine_publish(url: str, messages: int) -> float:
    return await _engine_publish(url, messages, HEADERS)


async def engine_publish_block(url: str, messages: int) -> float:
    return await _engine_publish(url, messages, BLOCK)


async def _engine_publish(url: str, messages: int, headers: dict[str, str] | bytes) -> float:
    engine = Engine(NatsSettings(url=url))
    await engine.ready(5)
    cpu = await _publish_with(lambda: engine.request(SUBJECT, DATA, headers=headers, timeout=5), messages)
    await engine.close()
    return cpu


async def engine_ask(url: str, messages: int) -> float:
    engine = Engine(NatsSettings(url=url))
    await engine.ready(5)
    answered = 0
    done = asyncio.Event()

    def ask() -> None:
        if not engine.ask(SUBJECT, DATA, BLOCK, 5, on_answer):
            # Paused: again in the next turn.
            asyncio.get_running_loop().call_soon(ask)

    def on_answer(_: object) -> None:
        nonlocal answered
        answered += 1
        if answered == messages:
            done.set()
        elif answered <= messages - WINDOW:
            ask()

    cpu = time.process_time()
    for _ in range(WINDOW):
        ask()
    await done.wait()
    cpu = time.process_time() - cpu
    await engine.close()
    return cpu


async def nats_py_publish(url: str, messages: int) -> float:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    cpu = await _publish_with(lambda: jetstream.publish(SUBJECT, DATA, headers=HEADERS, timeout=5), messages)
    await client.close()
    return cpu


async def bare_pull(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    return await link.pull_all(NEXT, PULL, BATCH, messages)


async def engine_pull(url: str, messages: int) -> float:
    return await _engine_pull(url, messages, look=False)


async def engine_pull_headers(url: str, messages: int) -> float:
    return await _engine_pull(url, messages, look=True)


async def _engine_pull(url: str, messages: int, *, look: bool) -> float:
    engine = Engine(NatsSettings(url=url))
    await engine.ready(5)
    acked = 0
    full = asyncio.Event()

    def count(messages: int) -> None:
        nonlocal acked
        acked += messages
        if acked % BATCH == 0:
            full.set()

    def on_arrival(arrival: Arrival) -> None:
        # From callbacks, as `forward` does it; the floor acks as it reads, too.
        if look and arrival.headers["ce-id"] != HEADERS["ce-id"]:
            raise RuntimeError(f"got {arrival.headers}")
        if not engine.answer(arrival.reply, b"+ACK"):
            raise RuntimeError("the socket takes no more acks")
        count(1)

    def on_pulled(run: Pulled) -> None:
        for reply, _, _ in zip(run.replies, run.blocks, run.payloads, strict=True):
            if not engine.answer(reply, b"+ACK"):
                raise RuntimeError("the socket takes no more acks")
        count(len(run.replies))

    await engine.subscribe("_INBOX.pull", on_arrival, None if look else on_pulled)
    cpu = time.process_time()
    for _ in range(messages // BATCH):
        await engine.publish(NEXT, PULL, reply="_INBOX.pull")
        await full.wait()
        full.clear()
    await engine.flush(5)
    cpu = time.process_time() - cpu
    await engine.close()
    return cpu


async def nats_py_pull(url: str, messages: int) -> float:
    client = await nats.connect(url)
    subscription = await client.jetstream().pull_subscribe_bind(CONSUMER, STREAM)
    cpu = time.process_time()
    for _ in range(messages // BATCH):
        for message in await subscription.fetch(BATCH, timeout=5):
            await message.ack()
    await client.flush()
    cpu = time.process_time() - cpu
    await client.close()
    return cpu


PUBLISH: dict[str, tuple[str, Work]] = {
    "bare": ("bare protocol, frames encoded beforehand, acks counted", bare_publish),
    "bare-future": ("the same, a future per publish", future_publish),
    "engine-block": ("engine, header block encoded beforehand", engine_publish_block),
    "engine": ("engine, headers as a mapping", engine_publish),
    "engine-ask": ("engine, block encoded beforehand, answers told without a coroutine, as in `receive`", engine_ask),
    "nats-py": ("nats-py, JetStream publish", nats_py_publish),
}
PULLS: dict[str, tuple[str, Work]] = {
    "pull-bare": ("bare protocol, frames split, acks written", bare_pull),
    "pull-engine": ("engine, headers not looked into", engine_pull),
    "pull-engine-headers": ("engine, headers read", engine_pull_headers),
    "pull-nats-py": ("nats-py, fetch and ack", nats_py_pull),
}
ROWS = PUBLISH | PULLS


async def prepare(url: str, messages: int) -> None:
    """A fresh stream on disk with a consumer, holding as many messages as a round of pulls takes."""
    engine = Engine(NatsSettings(url=url))
    stream = {"name": STREAM, "subjects": [SUBJECT], "storage": "file"}
    consumer = {
        "stream_name": STREAM,
        "config": {"durable_name": CONSUMER, "ack_policy": "explicit", "max_ack_pending": 100_000},
    }
    await engine.request(f"$JS.API.STREAM.DELETE.{STREAM}", timeout=5)
    for subject, body in (
        (f"$JS.API.STREAM.CREATE.{STREAM}", stream),
        (f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}", consumer),
    ):
        answer = json.loads((await engine.request(subject, json.dumps(body).encode(), timeout=5)).data)
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']}")
    await engine.close()
    await engine_publish_block(url, messages)


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
    parser.add_argument("--messages", type=int, default=51_200, help=f"per row and round, a multiple of {WINDOW}")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument("--json", action="store_true", help="JSON lines, one per row, instead of a table")
    parser.add_argument("--row", choices=list(ROWS), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    messages = max(WINDOW, arguments.messages // WINDOW * WINDOW)
    if arguments.row:
        uvloop.run(_round(arguments.row, arguments.url, messages))
        return
    with tempfile.TemporaryDirectory(prefix="headrace-floor-") as directory:
        server = NatsServer(Path(directory)).start()
        try:
            found = measure(server.url, messages, arguments.rounds)
        finally:
            server.stop()
    publish_floor, pull_floor = (_cost(found[row], messages) for row in ("bare-future", "pull-bare"))
    for row, (what, _) in ROWS.items():
        cost, rate = _cost(found[row], messages), messages / statistics.median(s["seconds"] for s in found[row])
        ratio = cost / (pull_floor if row in PULLS else publish_floor)
        if arguments.json:
            result = {"bench": row, "cpu_us_per_event": cost, "events_per_s": rate, "ratio_to_floor": ratio}
            print(json.dumps({name: round(value, 2) if name != "bench" else value for name, value in result.items()}))
        else:
            print(f"{row:20} {cost:6.1f} µs CPU {ratio:5.2f} x floor {rate:9,.0f}/s  {what}")


def _cost(samples: list[dict[str, float]], messages: int) -> float:
    return statistics.median(sample["cpu_seconds"] for sample in samples) / messages * 1e6


if __name__ == "__main__":
    main()
