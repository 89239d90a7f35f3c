"""One connection, at the moments that no server can bring about at will: what happens in the same instant.

The other end is a real socket; the test stands where the pool does.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace.io.http.connection import ConnectionBroken, HttpConnection

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


class Keeper:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def free(self, *_: object) -> None:
        self.told.append("free")

    def gone(self, *_: object) -> None:
        self.told.append("gone")

    def closed(self, *_: object) -> None:
        self.told.append("closed")


@asynccontextmanager
async def connected(keeper: Keeper) -> AsyncIterator[HttpConnection]:
    ours, theirs = socket.socketpair()
    _, connection = await asyncio.get_running_loop().create_connection(lambda: HttpConnection(keeper), sock=ours)
    try:
        yield connection
    finally:
        connection.abort()
        theirs.close()
        await asyncio.sleep(0)


def exchange(connection: HttpConnection) -> asyncio.Future[object]:
    return connection.exchange(b"POST / HTTP/1.1\r\n\r\n", b"", 1000, time.monotonic() + 10)


async def test_a_connection_whose_exchange_is_over_is_free_and_when_it_is_closed_that_is_told_once():
    keeper = Keeper()
    async with connected(keeper) as connection:
        answer = exchange(connection)
        connection.data_received(ACCEPTED)
        assert (await answer).status == 202
        assert keeper.told == ["free"]
        connection.abort()
        connection.abort()
    assert keeper.told == ["free", "gone", "closed"]


async def test_an_answer_that_comes_after_the_wait_was_cancelled_frees_nothing():
    keeper = Keeper()
    async with connected(keeper) as connection:
        answer = exchange(connection)
        answer.cancel()
        connection.data_received(ACCEPTED)
        connection.abandon(answer)
        assert not connection.usable
    assert keeper.told == ["gone", "closed"]


async def test_who_was_cancelled_after_the_answer_leaves_the_next_exchange_alone():
    keeper = Keeper()
    async with connected(keeper) as connection:
        first = exchange(connection)
        connection.data_received(ACCEPTED)
        second = exchange(connection)
        connection.abandon(first)
        connection.data_received(ACCEPTED)
        assert (await second).status == 202
    assert keeper.told == ["free", "free", "gone", "closed"]


async def test_who_leaves_in_the_middle_closes_the_connection():
    keeper = Keeper()
    async with connected(keeper) as connection:
        answer = exchange(connection)
        connection.data_received(b"HTTP/1.1 20")
        connection.abandon(answer)
        assert not answer.done()
    assert keeper.told == ["gone", "closed"]


async def test_a_closed_connection_sends_nothing():
    keeper = Keeper()
    async with connected(keeper) as connection:
        connection.abort()
        with pytest.raises(ConnectionBroken) as broken:
            await exchange(connection)
        assert not broken.value.stale


async def test_the_end_of_a_connection_is_told_although_who_waited_for_its_answer_fails():
    told: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, words: told.append(words))
    keeper = Keeper()

    def fails(_: object) -> None:
        raise RuntimeError("nobody has foreseen this")

    async with connected(keeper) as connection:
        connection.begin(b"POST / HTTP/1.1\r\n\r\n", b"", 1000, time.monotonic() + 10, fails)
        with pytest.raises(RuntimeError):
            connection.connection_lost(None)
        assert keeper.told[-1] == "closed"
