"""The memory of answers, while they come and after: little for pages that nobody reads, one copy for replies."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import Iterator

from tests.support.http.http_clients import MIB
from tests.support.http.raw_server import Peer, answering, serving
from tests.support.waiting import until

EVENT_HEAD = b"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\n"
EVENT = b"%bcontent-length: %d\r\n\r\n%b" % (EVENT_HEAD, MIB, bytes(MIB))
PAGE = b"HTTP/1.1 500 Oh No\r\ncontent-length: %d\r\n\r\n%b" % (MIB, bytes(MIB))


async def test_a_page_of_each_of_many_subscribers_takes_little_room(client):
    most, said = 100, []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(PAGE[:-1])
        said.append(peer)
        await peer.gone()

    async with serving(script) as server:
        tracemalloc.start()
        try:
            waiting = [asyncio.ensure_future(client.post(server.url, limit=MIB)) for _ in range(most)]
            await until("all have said nearly all", lambda: len(said) == most)
            # 100 MiB of pages.
            await until("little is held", lambda: tracemalloc.get_traced_memory()[0] < 10 * MIB)
        finally:
            tracemalloc.stop()
        for posting in waiting:
            posting.cancel()
        await asyncio.wait(waiting)


async def test_a_large_reply_is_held_once(client):
    size = 16 * MIB

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(EVENT_HEAD + b"content-length: %d\r\n\r\n" % size, *itertools.repeat(bytes(MIB // 16), 256))

    async with serving(script) as server:
        tracemalloc.start()
        try:
            answer = await client.post(server.url, limit=size)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(answer.body) == size
    # The event loop's pieces, and what a buffer that grows has to spare: but no second copy.
    assert peak < 1.5 * size


SIZE = MIB // 2


def dripped(size: int) -> Iterator[bytes]:
    """A body that can't be kept in pieces: each of them costs more than its bytes."""
    yield EVENT_HEAD + b"transfer-encoding: chunked\r\n\r\n"
    for _ in range(size // 2000):
        yield b"2\r\nab\r\n" * 1000


async def test_a_body_in_tiny_chunks_takes_no_more_room_than_its_bytes(client):
    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in dripped(SIZE):
            await peer.say(piece)
        await peer.gone()

    async with serving(script) as server:
        tracemalloc.start()
        try:
            answer = await client.post(server.url, limit=SIZE // 2)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (len(answer.body), answer.truncated) == (SIZE // 2, True)
    # Kept piece by piece it would be 6 MiB.
    assert peak < 3 * MIB


async def test_idle_connections_do_not_hold_their_last_answers(client):
    async with serving(answering(EVENT)) as server:
        tracemalloc.start()
        try:
            await asyncio.gather(*(client.post(server.url) for _ in range(16)))
            # The event loop lets go of what it has just called in its next rounds.
            await until("nothing is held", lambda: tracemalloc.get_traced_memory()[0] < 4 * MIB)
        finally:
            tracemalloc.stop()
        assert server.connections == 16
