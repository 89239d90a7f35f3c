"""The load generator, a process of its own: a closed loop over some keep-alive connections.

    python -m bench.load --url http://127.0.0.1:8080/bench/orders --events 20000 --connections 32

With `--two-writes` head and body leave in two system calls, as Go's clients send them, and with `--gap` so many
microseconds lie between the two. Prints one JSON object.

Written on the bare protocol, so that it takes little from the cores that it shares with what it measures; its own CPU
per event is also the floor of `forward`: no HTTP client can cost less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.requests import Mode, Template, template


class Load:
    """What all connections share: the next event, and what came of the former ones."""

    def __init__(self, requests: Template, events: int, *, two_writes: bool, gap: float) -> None:
        """Args:
        gap: seconds between head and body; the whole process sleeps, so it is for one connection.
        """
        self._requests = requests
        self._two_writes = two_writes
        self._gap = gap
        self.events = events
        self._next = 0
        self._open = events
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.Future()

    def send(self, transport: asyncio.Transport, descriptor: int) -> None:
        """Send the next event, if there is one."""
        if self._next >= self.events:
            return
        self._next += 1
        if self._two_writes:
            head, body = self._requests.head_and_body(self._next)
            # Past the transport, which has nothing to write in a closed loop, and would write both at once.
            _write(descriptor, head)
            if self._gap:
                time.sleep(self._gap)
            _write(descriptor, body)
        else:
            transport.write(self._requests.request(self._next))

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
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's derive from no such class
        self._descriptor: int = transport.get_extra_info("socket").fileno()
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.broke(exc)

    def on_message_complete(self) -> None:
        self._load.answered(self._parser.get_status_code(), time.perf_counter() - self._sent)
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._load.send(self._transport, self._descriptor)


def _write(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise ConnectionError("the server does not read what is sent")


async def run(load: Load, url: str, connections: int) -> dict[str, object]:
    """Send the events and wait for every answer.

    Raises:
        ConnectionError: a connection broke while requests were open.
    """
    address = urlsplit(url)
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
        "events": load.events,
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
    parser.add_argument("--authorization", default="", help="what each event shows")
    parser.add_argument("--two-writes", action="store_true", help="head and body in a system call each")
    parser.add_argument("--gap", type=float, default=0.0, help="µs between the two; for one connection")
    print(json.dumps(uvloop.run(_main(parser.parse_args()))))


async def _main(arguments: argparse.Namespace) -> dict[str, object]:
    requests = template(arguments.mode, urlsplit(arguments.url).path or "/", arguments.run, arguments.authorization)
    load = Load(requests, arguments.events, two_writes=arguments.two_writes, gap=arguments.gap / 1e6)
    return await run(load, arguments.url, arguments.connections)


if __name__ == "__main__":
    main()
