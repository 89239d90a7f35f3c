"""Latency at a fixed rate: this program sends each event when it is due, and is its subscriber, too.

    python -m bench.paced --url http://127.0.0.1:8080/bench/paced --port 9001 --events 10000 --rate 500

Open loop: an event that is sent late counts from when it was due. Prints one JSON object. Sender and subscriber share
a process, and so a clock; at this rate they hardly meet.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.requests import Mode, Template, template
from bench.sink import ACCEPTED

CONNECTIONS = 16
# Seconds whose events count for nothing: connections are opened, leases begin.
WARM_UP_SECONDS = 2.0
# After the last was sent.
PATIENCE_SECONDS = 30.0


class Flow:
    """Which event was due when, and how long it took."""

    def __init__(self, events: int, rate: float, run: str) -> None:
        self.all_there = asyncio.Event()
        self.latencies: dict[int, float] = {}
        self._began = 0.0
        self._events = events
        self._rate = rate
        self._prefix = f"{run}-".encode()

    def begin(self) -> None:
        self._began = time.perf_counter() + 0.1

    def due(self, number: int) -> float:
        return self._began + number / self._rate

    def arrived(self, event_id: bytes) -> None:
        number = int(event_id.removeprefix(self._prefix))
        # Only the first time counts, if it comes twice.
        self.latencies.setdefault(number, time.perf_counter() - self.due(number))
        if len(self.latencies) == self._events:
            self.all_there.set()


class Arrivals(Protocol):
    """Whoever is told which event has arrived."""

    def arrived(self, event_id: bytes) -> None: ...


class Subscriber(asyncio.Protocol):
    """The subscriber's end; httptools calls the `on_` methods."""

    def __init__(self, flow: Arrivals) -> None:
        self._flow = flow
        self._parser = httptools.HttpRequestParser(self)
        self._id = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's derive from no such class

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"ce-id":
            self._id = value

    def on_message_complete(self) -> None:
        self._flow.arrived(self._id)
        self._transport.write(ACCEPTED)


class Producer(asyncio.Protocol):
    """One connection to `receive`, with one request at a time on it."""

    def __init__(self, free: deque[Producer]) -> None:
        self._free = free
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's derive from no such class
        self._free.append(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() != 202:
            raise RuntimeError(f"receive has answered {self._parser.get_status_code()}")
        self._free.append(self)

    def send(self, request: bytes) -> None:
        self._transport.write(request)


async def run(url: str, port: int, events: int, rate: float) -> dict[str, float]:
    name = f"{time.time_ns():x}"
    loop, address = asyncio.get_running_loop(), urlsplit(url)
    warm_up = int(WARM_UP_SECONDS * rate)
    flow, free = Flow(events + warm_up, rate, name), deque[Producer]()
    server = await loop.create_server(lambda: Subscriber(flow), "127.0.0.1", port)
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Producer(free), address.hostname or "127.0.0.1", address.port or 80)
    requests = template(Mode.BINARY, address.path, name)
    flow.begin()
    # A thread's sleep is exact to some 0.1 ms, the loop's timers only to 1 ms.
    await asyncio.to_thread(_keep_pace, flow, events + warm_up, loop, lambda number: _send(free, requests, number))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await flow.all_there.wait()
    server.close()
    counted = sorted(latency for number, latency in flow.latencies.items() if number >= warm_up)
    return {
        "events": len(flow.latencies),
        "seconds": len(flow.latencies) / rate,
        "p50_ms": counted[len(counted) // 2] * 1000,
        "p99_ms": counted[len(counted) * 99 // 100] * 1000,
        "max_ms": counted[-1] * 1000,
    }


def _keep_pace(flow: Flow, events: int, loop: asyncio.AbstractEventLoop, send: Callable[[int], None]) -> None:
    for number in range(events):
        early = flow.due(number) - time.perf_counter()
        if early > 0:
            time.sleep(early)
        loop.call_soon_threadsafe(send, number)


def _send(free: deque[Producer], requests: Template, number: int) -> None:
    if not free:
        # A stall of receive; what waits counts from when it was due.
        asyncio.get_running_loop().call_later(0.001, _send, free, requests, number)
    else:
        free.popleft().send(requests.request(number))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.paced", description="Send events when they are due, and get them.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=500.0)
    arguments = parser.parse_args()
    # What is measured are others' pauses, not ours.
    gc.disable()
    print(json.dumps(uvloop.run(run(arguments.url, arguments.port, arguments.events, arguments.rate))))


if __name__ == "__main__":
    main()
