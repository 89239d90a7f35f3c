"""The load generator, a process of its own: a closed loop over some keep-alive connections.

    python -m bench.load --url http://127.0.0.1:8080/bench/orders --events 20000 --connections 32

Prints one JSON object. Written on the bare protocol, so that it takes little from the cores that it shares
with what it measures; its own CPU per event is also the floor of `forward`: no HTTP client can cost less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.requests import Mode, Template, template


class Load:
    """What all connections share: the next event, and what came of the former ones."""

    def __init__(self, requests: Template, events: int) -> None:
        self._requests = requests
        self._events = events
        self._next = 0
        self._open = events
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next(self) -> bytes | None:
        if self._next >= self._events:
            return None
        self._next += 1
        return self._requests.request(self._next)

    def answered(self, status: int, seconds: float) -> None:
        self.statuses[status] += 1
        self.latencies.append(seconds)
        self._open -= 1
        if self._open == 0 and not self.done.done():
            self.done.set_result(None)

    def broke(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed a connection in use"))


class Connection(asyncio.Protocol):
    """One connection with one request at a time on it; httptools calls the `on_` methods."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from no asyncio class
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.broke(exc)

    def on_message_complete(self) -> None:
        self._load.answered(self._parser.get_status_code(), time.perf_counter() - self._sent)
        self._send()

    def _send(self) -> None:
        request = self._load.next()
        if request is not None and self._transport is not None:
            self._sent = time.perf_counter()
            self._transport.write(request)


async def run(url: str, events: int, connections: int, requests: Template) -> dict[str, object]:
    """Send the events and wait for every answer.

    Raises:
        ConnectionError: a connection broke while requests were open.
    """
    address = urlsplit(url)
    load = Load(requests, events)
    loop = asyncio.get_running_loop()
    began, cpu = time.perf_counter(), time.process_time()
    host, port = address.hostname or "127.0.0.1", address.port or 80
    transports = [(await loop.create_connection(lambda: Connection(load), host, port))[0] for _ in range(connections)]
    await load.done
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    for transport in transports:
        transport.close()
    latencies = sorted(load.latencies)
    return {
        "events": events,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "statuses": {str(status): count for status, count in load.statuses.items()},
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.load", description="Send CloudEvents in a closed loop.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.BINARY)
    parser.add_argument("--run", default=f"{time.time_ns():x}", help="part of every id; unique by default")
    arguments = parser.parse_args()
    requests = template(arguments.mode, urlsplit(arguments.url).path or "/", arguments.run)
    print(json.dumps(uvloop.run(run(arguments.url, arguments.events, arguments.connections, requests))))


if __name__ == "__main__":
    main()
