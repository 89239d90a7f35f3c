"""A subscriber that records what it is sent and answers as it is told; reply addresses and dead letter sinks, too.

A real HTTP/1.1 server on a thread of its own, so that it goes on answering whatever the test waits for. Each test
takes places (paths) of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

import httptools

from tests.support.waiting import until

NO_BODY = (204, 304)


@dataclass(frozen=True)
class Say:
    """One answer; `delay` seconds pass before it."""

    status: int = 202
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0


@dataclass(frozen=True)
class Hold:
    """No answer until `Place.release`, then this one."""

    then: Say = field(default_factory=Say)


@dataclass(frozen=True)
class Cut:
    """An answer whose body breaks off in the middle; `reset` ends it with a TCP reset."""

    reset: bool = False


@dataclass(frozen=True)
class HangUp:
    """The connection is closed without an answer."""


Answer = Say | Hold | Cut | HangUp


@dataclass
class Received:
    """One request.

    Attributes:
        headers: names in lower case.
        at: when it was complete, on the monotonic clock.
        gone_at: when the client hung up before it was answered.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    at: float
    gone_at: float | None = None

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    @property
    def event(self) -> dict[str, str]:
        """The attributes of the binary event: its `ce-` headers without the prefix."""
        return {key.removeprefix("ce-"): value for key, value in self.headers if key.startswith("ce-")}


class Place:
    """One path of a subscriber.

    Attributes:
        received: all requests so far, in their order.
        most_at_once: how many of them were unanswered at the same time, at most.
    """

    def __init__(self, uri: str, loop: asyncio.AbstractEventLoop) -> None:
        self.uri = uri
        self.received: list[Received] = []
        self.most_at_once = 0
        self._at_once = 0
        self._loop = loop
        self._released = asyncio.Event()
        self._choose: Callable[[Received], Answer] = lambda _: Say()

    def says(self, *answers: Answer) -> Place:
        """Answer with these in turn, and with the last one for ever."""
        turns = iter(itertools.chain(answers, itertools.repeat(answers[-1])))
        return self.decides(lambda _: next(turns))

    def decides(self, choose: Callable[[Received], Answer]) -> Place:
        """Answer by the request."""
        self._choose = choose
        return self

    def release(self) -> None:
        """Answer everything that is held now or later."""
        self._loop.call_soon_threadsafe(self._released.set)

    @property
    def ids(self) -> list[str]:
        """The ids of the events that came, in their order."""
        return [request.event["id"] for request in self.received]

    async def wait(self, count: int, timeout: float = 60.0) -> list[Received]:
        """The first `count` requests; fails the test when fewer came in `timeout` seconds."""
        await until(f"{count} requests came to {self.uri}", lambda: len(self.received) >= count, timeout)
        return self.received[:count]

    async def answer(self, request: Received) -> Answer:
        """Record a request and choose its answer; on the server's own loop."""
        self.received.append(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            answer = self._choose(request)
            if isinstance(answer, Hold):
                await self._released.wait()
                return answer.then
            if isinstance(answer, Say) and answer.delay:
                await asyncio.sleep(answer.delay)
            return answer
        finally:
            self._at_once -= 1


class Subscriber:
    """The server; use it as a context manager."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._serial = itertools.count(1)
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="subscriber")
        self._connections: set[_Connection] = set()
        self._loop: asyncio.AbstractEventLoop
        self._ended: asyncio.Event
        self.port = 0

    def place(self, *answers: Answer) -> Place:
        """A new path; it answers 202 unless told otherwise."""
        path = f"/{next(self._serial)}"
        place = self._places[path] = Place(f"http://127.0.0.1:{self.port}{path}", self._loop)
        return place.says(*answers) if answers else place

    def find(self, path: str) -> Place:
        """The place of a path; a stray request makes one of its own, which answers 202 and is in nobody's way."""
        return self._places.setdefault(path, Place(path, self._loop))

    def __enter__(self) -> Subscriber:
        self._thread.start()
        assert self._started.wait(10), "the subscriber did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self._places.values():
            place.release()
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(lambda: _Connection(self, self._connections), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._ended.wait()
        server.close()
        for connection in list(self._connections):
            connection.transport.abort()
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """One client's connection, one request after the other; httptools calls the `on_` methods."""

    transport: asyncio.Transport

    def __init__(self, subscriber: Subscriber, connections: set[_Connection]) -> None:
        self._subscriber = subscriber
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._body = b""
        self._open: Received | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.discard(self)
        if self._open is not None:
            self._open.gone_at = time.monotonic()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", [], b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        self._open = Received(method, self._url.decode(), tuple(self._headers), self._body, time.monotonic())
        self._task = asyncio.get_running_loop().create_task(self._answer(self._open))

    async def _answer(self, request: Received) -> None:
        answer = await self._subscriber.find(request.path).answer(request)
        self._open = None
        match answer:
            case Say():
                self.transport.write(_encoded(answer))
            case Cut(reset):
                self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning")
                # A moment, or a reset would overtake what was written.
                await asyncio.sleep(0.02)
                self.transport.abort() if reset else self.transport.close()
            case _:
                self.transport.close()


def _encoded(answer: Say) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} Whatever"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    body = b"" if answer.status in NO_BODY else answer.body
    if answer.status not in NO_BODY:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
