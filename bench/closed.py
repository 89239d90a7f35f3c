"""A closed loop from end to end: some connections send one event after the other, and this program receives them, too.

    python -m bench.closed --url http://127.0.0.1:8080/bench/paced --port 9001 --events 20000 --connections 32

An event's time runs from its sending until its subscriber has it. Prints one JSON object. Sender and subscriber share a
process, and so a clock; together they take less of a core than what they measure.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.paced import Subscriber
from bench.requests import Mode, Template, template

# After the last was accepted.
PATIENCE_SECONDS = 60.0


class Loop:
    """What was sent, accepted and delivered."""

    def __init__(self, requests: Template, events: int, run: str) -> None:
        self.all_there = asyncio.Event()
        self.latencies: dict[int, float] = {}
        self.last = 0.0
        self.waiting_half = self.waiting_end = 0
        self._requests = requests
        self._events = events
        self._prefix = f"{run}-".encode()
        self._sent: dict[int, float] = {}
        self._next = self._accepted = 0

    def next(self) -> bytes | None:
        if self._next >= self._events:
            return None
        self._next += 1
        self._sent[self._next] = time.perf_counter()
        return self._requests.request(self._next)

    def accepted(self) -> None:
        self._accepted += 1
        if self._accepted == self._events // 2:
            self.waiting_half = self._waiting()
        elif self._accepted == self._events:
            self.waiting_end = self._waiting()

    def arrived(self, event_id: bytes) -> None:
        number = int(event_id.removeprefix(self._prefix))
        self.last = time.perf_counter()
        # Only the first time counts, if it comes twice.
        self.latencies.setdefault(number, self.last - self._sent[number])
        if len(self.latencies) == self._events:
            self.all_there.set()

    def _waiting(self) -> int:
        # An event may be there before its sender is told that it was accepted.
        return max(0, self._accepted - len(self.latencies))


class Producer(asyncio.Protocol):
    """One connection to `receive`, with one request at a time on it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's derive from no such class
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() != 202:
            raise RuntimeError(f"receive has answered {self._parser.get_status_code()}")
        self._loop.accepted()
        self._send()

    def _send(self) -> None:
        request = self._loop.next()
        if request is not None:
            self._transport.write(request)


async def run(url: str, port: int, events: int, connections: int) -> dict[str, float]:
    name = f"{time.time_ns():x}"
    loop, address = asyncio.get_running_loop(), urlsplit(url)
    closed = Loop(template(Mode.BINARY, address.path, name), events, name)
    server = await loop.create_server(lambda: Subscriber(closed), "127.0.0.1", port)
    began = time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Producer(closed), address.hostname or "127.0.0.1", address.port or 80)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await closed.all_there.wait()
    server.close()
    latencies = sorted(closed.latencies.values())
    return {
        "events": len(latencies),
        "seconds": closed.last - began,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1000,
        "waiting_half": closed.waiting_half,
        "waiting_end": closed.waiting_end,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.closed", description="Send events one after the other, and get them.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=32)
    arguments = parser.parse_args()
    # What is measured are others' pauses, not ours.
    gc.disable()
    print(json.dumps(uvloop.run(run(arguments.url, arguments.port, arguments.events, arguments.connections))))


if __name__ == "__main__":
    main()
