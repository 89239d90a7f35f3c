"""The producers: each POSTs its events to `receive` when their time has come, until it has a 202."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count
from typing import Any

from tests.simulation.ledger import Ledger, Posted
from tests.simulation.plan import EventPlan
from tests.simulation.world import content
from tests.simulation.world.requests import Reader, Whole, render

# Longer than `receive` tries to store an event.
ANSWER_SECONDS = 8.0
PAUSE_SECONDS = 0.5


class Broken(Exception):
    """No answer came."""


class _Connection(asyncio.Protocol):
    """One request and its answer at a time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.usable = True
        self._reader = Reader()
        self._waiting: asyncio.Future[Whole] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    async def ask(self, request: bytes) -> Whole:
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._waiting
        except TimeoutError:
            self.close()
            raise Broken from None
        if answer.headers.get("connection") == "close":
            self.close()
        return answer

    def close(self) -> None:
        self.usable = False
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        for answer in self._reader.feed(data):
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(answer)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.usable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Broken())


class Producers:
    """All producers, on one host."""

    def __init__(self, events: Iterable[EventPlan], address: tuple[str, int], ledger: Ledger) -> None:
        self._events = tuple(events)
        self._address = address
        self._ledger = ledger
        self._numbers = count(1)
        self._kept: dict[int, _Connection] = {}
        self._turns: dict[int, asyncio.Lock] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for event in self._events:
                tasks.create_task(self._produce(event))
        for connection in self._kept.values():
            connection.close()

    async def _produce(self, event: EventPlan) -> None:
        await asyncio.sleep(event.at)
        for turn in range(event.tries):
            if turn:
                await asyncio.sleep(PAUSE_SECONDS)
            if await self._post(event) == 202:
                if event.twice is not None:
                    await asyncio.sleep(event.twice)
                    await self._post(event)
                return

    async def _post(self, event: EventPlan) -> int | None:
        if not event.kept:
            return await self._post_on(event, None)
        async with self._turns.setdefault(event.producer, asyncio.Lock()):
            return await self._post_on(event, event.producer)

    async def _post_on(self, event: EventPlan, keeper: int | None) -> int | None:
        loop = asyncio.get_running_loop()
        connection = self._kept.get(keeper) if keeper is not None else None
        posted = Posted(event.id, loop.time(), 0)
        self._ledger.posted.append(posted)
        headers, body = content.sent(event)
        request = render(f"POST /default/c{event.channel} HTTP/1.1", {"host": self._address[0], **headers}, body)
        try:
            if connection is None or not connection.usable:
                connection = await self._connected()
            posted.connection = connection.number
            answer = await connection.ask(request)
        except (Broken, OSError, TimeoutError):
            posted.ended = loop.time()
            return None
        posted.status, posted.ended = int(answer.line.split(" ")[1]), loop.time()
        if keeper is None:
            connection.close()
        else:
            self._kept[keeper] = connection
        return posted.status

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(ANSWER_SECONDS):
            _, connection = await loop.create_connection(lambda: _Connection(next(self._numbers)), *self._address)
        return connection
