"""Subscribers, reply addresses and dead letter sinks of the bench: they write down what comes, then answer as told.

A real HTTP/1.1 server on a thread of its own. Hooks run on that thread, at the exact moment: between a request and its
answer, or between an answer and whoever was to read it, so that a process can be killed right there.
`python -m tests.faults.sink PORT FILE SECONDS` is the same server as a process of its own, for cells that kill it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import httptools


def http(status: int, body: bytes = b"", reason: str = "Whatever", **headers: str) -> bytes:
    """An answer with exactly these headers; underscores in their names stand for dashes."""
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if status >= 200 and status not in (204, 304):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass(frozen=True, slots=True)
class Say:
    """One answer.

    Attributes:
        raw: its bytes; none at all is a subscriber that hangs.
        delay: seconds before it.
        takes: does the subscriber count the event as taken? What is answered otherwise may come again.
        hangs_up: end the connection after it; `resets`: with a TCP reset.
    """

    raw: bytes = field(default_factory=lambda: http(202))
    delay: float = 0.0
    takes: bool = True
    hangs_up: bool = False
    resets: bool = False


TAKE = Say()
HANG = Say(b"", takes=False)


@dataclass(slots=True)
class Arrival:
    """One request; times are of the monotonic clock.

    Attributes:
        id: of the event.
        answered_at: when its answer was written; None while it is in the subscriber's hands.
    """

    path: str
    headers: dict[str, str]
    at: float
    id: str = ""
    took: bool = True
    answered_at: float | None = None


class Place:
    """One path of the server.

    Attributes:
        decide: the answer to a request; called before it is written down as answered.
        after: called once the answer was handed to the kernel.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.arrivals: list[Arrival] = []
        self.decide: Callable[[Arrival], Say] = lambda _: TAKE
        self.after: Callable[[Arrival], None] = lambda _: None

    def says(self, *answers: Say) -> None:
        """To each event the first of these at its first arrival, the second at its second …, the last for ever."""
        seen: dict[str, int] = {}

        def decide(arrival: Arrival) -> Say:
            seen[arrival.id] = seen.get(arrival.id, 0) + 1
            return answers[min(seen[arrival.id], len(answers)) - 1]

        self.decide = decide


class Sink:
    """The server; `up` and `down` at will, on one port.

    Attributes:
        on_connect: called for each new connection, before anything is read from it.
    """

    def __init__(self, port: int = 0, address: str = "127.0.0.1") -> None:
        self.port = port
        self._address = address
        self.places: dict[str, Place] = {}
        self.connections: set[_Connection] = set()
        self.on_connect: Callable[[], None] = lambda: None
        self._server: asyncio.Server | None = None
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="sink", daemon=True)
        self._thread.start()
        self.up()

    def place(self, path: str) -> Place:
        return self.places.setdefault(path, Place(path))

    def uri(self, path: str) -> str:
        return f"http://{self._address}:{self.port}{path}"

    def up(self) -> None:
        self._do(self._listen())

    def down(self) -> None:
        """Connections are reset and new ones refused, as when the process was killed."""
        self._do(self._leave())

    def close(self) -> None:
        self.down()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    async def _listen(self) -> None:
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Connection(self), self._address, self.port, backlog=1024)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _leave(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.reset()
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """One client; httptools calls the `on_` methods."""

    transport: asyncio.Transport

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._headers: dict[str, str] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._sink.connections.add(self)
        self._sink.on_connect()

    def connection_lost(self, _: Exception | None) -> None:
        self._sink.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def reset(self) -> None:
        plug = self.transport.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def on_message_begin(self) -> None:
        self._path, self._headers = "", {}

    def on_url(self, url: bytes) -> None:
        self._path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_message_complete(self) -> None:
        place = self._sink.place(self._path)
        arrival = Arrival(self._path, self._headers, time.monotonic(), self._headers.get("ce-id", ""))
        place.arrivals.append(arrival)
        answer = place.decide(arrival)
        arrival.took = answer.takes
        if answer.delay:
            self._sink.loop.call_later(answer.delay, self._answer, place, arrival, answer)
        else:
            self._answer(place, arrival, answer)

    def _answer(self, place: Place, arrival: Arrival, answer: Say) -> None:
        if self.transport.is_closing():
            place.after(arrival)
            return
        self.transport.write(answer.raw)
        if answer.raw:
            arrival.answered_at = time.monotonic()
        place.after(arrival)
        if answer.resets:
            self.reset()
        elif answer.hangs_up:
            self.transport.close()


def main(port: int, file: str, seconds: float) -> None:
    """Serve for ever; one line per event that was taken, written before it is answered."""
    log = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def decide(arrival: Arrival) -> Say:
        os.write(log, f"{arrival.path} {arrival.id} {arrival.at}\n".encode())
        return Say(delay=seconds)

    sink = Sink()
    sink.down()
    sink.port = port
    sink.place = functools.cache(lambda path: _decided(path, decide))  # type: ignore[method-assign]  # any path will do
    sink.up()
    threading.Event().wait()


def _decided(path: str, decide: Callable[[Arrival], Say]) -> Place:
    place = Place(path)
    place.decide = decide
    return place


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
