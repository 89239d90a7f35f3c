"""What one POST costs our HTTP client, beside the bare protocol and aiohttp.

    python -m bench.http_floor

20,000 POSTs of 1 KiB with 6 headers, 32 in flight on kept connections, to a sink on the bare protocol in a process of
its own; in turn in one run, some rounds, medians. CPU is that of the client's process alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import httptools
import uvloop

from bench.processes import module
from headrace.core.delivery.subscriber import Destination
from headrace.core.http import Headers
from headrace.io.http import HttpClient
from tests.support.http.sink_client import SinkClient

WARM_UP = 2_000
LIMIT = 1024 * 1024
TIMEOUT = timedelta(seconds=60)
BODY = b"x" * 1024
HEADERS: Headers = (
    (b"content-type", b"application/json"),
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"4711-000000001"),
    (b"ce-type", b"com.example.order.created"),
    (b"ce-source", b"/bench/http"),
    (b"ce-time", b"2026-11-28T12:00:00Z"),
)
Row = Callable[[int, int, int], Awaitable[None]]
"""Sends so many POSTs to that port, so many at once."""


class BarePoster(asyncio.Protocol):
    """The floor: one ready-made request after the other, no answer looked at but for where it ends."""

    def __init__(self, request: bytes, left: list[None], done: asyncio.Event) -> None:
        self._request = request
        self._left = left
        self._done = done
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from no asyncio class
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() == 202:
            self._send()

    def _send(self) -> None:
        assert self._transport is not None
        if self._left:
            self._left.pop()
            self._transport.write(self._request)
        else:
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._done.set()


async def bare(port: int, posts: int, at_once: int) -> None:
    left, request, ends = [None] * posts, _request(port), [asyncio.Event() for _ in range(at_once)]
    for end in ends:
        await asyncio.get_running_loop().create_connection(
            lambda end=end: BarePoster(request, left, end),  # type: ignore[misc]  # mypy infers no lambda with defaults
            "127.0.0.1",
            port,
        )
    for end in ends:
        await end.wait()


def _request(port: int) -> bytes:
    lines = [b"POST / HTTP/1.1", b"Host: 127.0.0.1:%d" % port, b"User-Agent: headrace"]
    lines += [b"%b: %b" % header for header in HEADERS]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(BODY), b"", BODY])


class AwaitedPoster(asyncio.Protocol):
    """The floor of whatever can be awaited: the same, with a future for each answer."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from no asyncio class

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        assert self._answer is not None
        self._answer.set_result(self._parser.get_status_code())

    def post(self, request: bytes) -> asyncio.Future[int]:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


async def awaited(port: int, posts: int, at_once: int) -> None:
    left, request = [None] * posts, _request(port)

    async def worker() -> None:
        _, poster = await asyncio.get_running_loop().create_connection(AwaitedPoster, "127.0.0.1", port)
        while left:
            left.pop()
            assert await poster.post(request) == 202
        poster.close()

    await asyncio.gather(*(worker() for _ in range(at_once)))


async def ours(port: int, posts: int, at_once: int) -> None:
    await _through(HttpClient(), port, posts, at_once)


async def aiohttp(port: int, posts: int, at_once: int) -> None:
    await _through(SinkClient(), port, posts, at_once)


async def _through(client: HttpClient | SinkClient, port: int, posts: int, at_once: int) -> None:
    destination = Destination(f"http://127.0.0.1:{port}/")
    left = [None] * posts

    async def worker() -> None:
        while left:
            left.pop()
            answer = await client.post(destination, HEADERS, BODY, TIMEOUT, LIMIT)
            assert answer.status == 202, answer

    await asyncio.gather(*(worker() for _ in range(at_once)))
    await client.close()


ROWS: dict[str, Row] = {"bare protocol": bare, "bare, awaited": awaited, "headrace.io.http": ours, "aiohttp": aiohttp}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.http_floor", description="CPU per POST of three HTTP clients.")
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(ROWS), action="append")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        sink = module("bench.sink", Path(directory))
        try:
            found = _measured(arguments, sink.port)
        finally:
            sink.stop()
    _print(found, as_json=arguments.json)


def _measured(arguments: argparse.Namespace, port: int) -> dict[str, list[tuple[float, float]]]:
    rows = {name: row for name, row in ROWS.items() if not arguments.only or name in arguments.only}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for row in rows.values():
        uvloop.run(row(port, WARM_UP, arguments.at_once))  # type: ignore[arg-type]  # a coroutine by its use, whatever the row says
    for _ in range(arguments.rounds):
        for name, row in rows.items():
            began, cpu = time.perf_counter(), time.process_time()
            uvloop.run(row(port, arguments.posts, arguments.at_once))  # type: ignore[arg-type]  # a coroutine by its use, whatever the row says
            cpu, seconds = time.process_time() - cpu, time.perf_counter() - began
            samples[name].append((cpu / arguments.posts * 1e6, arguments.posts / seconds))
    return samples


def _print(found: dict[str, list[tuple[float, float]]], *, as_json: bool) -> None:
    floor = statistics.median(cpu for cpu, _ in next(iter(found.values())))
    for name, samples in found.items():
        cpu = statistics.median(cpu for cpu, _ in samples)
        per_second = statistics.median(rate for _, rate in samples)
        if as_json:
            row = {"bench": f"post: {name}", "cpu_us_per_event": round(cpu, 1), "events_per_s": round(per_second)}
            print(json.dumps({**row, "ratio_to_floor": round(cpu / floor, 2)}))
        else:
            print(f"{name:18} {cpu:6.1f} µs CPU/POST  {cpu / floor:5.2f} x floor  {per_second:8,.0f} POSTs/s")


if __name__ == "__main__":
    main()
