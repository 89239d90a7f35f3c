"""No server can make the client hold more than its limits, however long it goes on."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import Iterator

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http_clients import MIB
from tests.support.raw_server import ACCEPTED, Peer, Script, answering, saying, serving
from tests.support.waiting import until

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def framed(body: bytes) -> dict[str, bytes]:
    """The three ways of saying where a body ends."""
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return {
        "length": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body),
        "chunks": CHUNKED + chunk + b"0\r\n\r\n",
        "end": b"HTTP/1.1 200 OK\r\n\r\n" + body,
    }


def endless(beginning: bytes, piece: bytes) -> Script:
    """A server that never stops talking, until the client hangs up."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(beginning)
        while True:
            await peer.say(*itertools.repeat(piece, 100))

    return script


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB])
async def test_a_body_within_the_limit_comes_whole(either, framing, size):
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with serving(saying(framed(body)[framing])) as server:
        answer = await either.post(server.url, limit=MIB)
    assert (answer.status, answer.truncated) == (200, False)
    assert answer.body == body


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
@pytest.mark.parametrize("limit", [0, 1, 1000])
async def test_a_body_beyond_the_limit_is_cut(either, framing, limit):
    body = bytes(range(256)) * 16
    async with serving(saying(framed(body)[framing])) as server:
        answer = await either.post(server.url, limit=limit)
    assert (answer.status, answer.body, answer.truncated) == (200, body[:limit], True)


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
async def test_a_cut_body_costs_the_connection(client, framing):
    async with serving(answering(framed(b"12345")[framing])) as server:
        assert (await client.post(server.url, limit=4)).truncated
        await until("it is closed", lambda: server.open == 0)


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000, id="until it ends"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", b"x" * 1000, id="with a length"),
        pytest.param(CHUNKED, b"1000\r\n" + b"x" * 0x1000 + b"\r\n", id="in chunks"),
        pytest.param(CHUNKED, b"1\r\nx\r\n", id="in chunks of one byte"),
    ],
)
async def test_a_body_without_end_is_cut(either, beginning, piece):
    async with serving(endless(beginning, piece)) as server:
        answer = await either.post(server.url, limit=20_000)
        assert (answer.status, len(answer.body), answer.truncated) == (200, 20_000, True)
        await until("it is closed", lambda: server.open == 0)


HEAD_TOO_LARGE = "the head of the answer is larger than 65536 bytes"
TOO_MANY_HEADERS = "the answer has more than 256 headers"


@pytest.mark.parametrize(
    ("beginning", "piece", "error"),
    [
        pytest.param(b"HTTP/1.1 200 ", b"x" * 100, HEAD_TOO_LARGE, id="reason phrase"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"x" * 100, HEAD_TOO_LARGE, id="header name"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a: ", b"x" * 100, HEAD_TOO_LARGE, id="header value"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a:", b" " * 100, HEAD_TOO_LARGE, id="blanks before a value"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a: 1\r\n", b" x\r\n" * 100, HEAD_TOO_LARGE, id="folded value"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"a: 1\r\n", TOO_MANY_HEADERS, id="headers"),
        pytest.param(b"", b"\r\n" * 100, HEAD_TOO_LARGE, id="blank lines before the answer"),
        pytest.param(b"", b"HTTP/1.1 102 Processing\r\n\r\n", "more than 16 interim answers", id="interim answers"),
        pytest.param(
            CHUNKED + b"1;",
            b"x" * 100,
            "more than 65536 bytes between two pieces of the answer's body",
            id="chunk extension",
        ),
        pytest.param(
            CHUNKED + b"1\r\na\r\n0\r\n",
            b"x-t: 1\r\n",
            "more than 65536 bytes between two pieces of the answer's body",
            id="trailers",
        ),
        pytest.param(
            CHUNKED + b"1\r\na\r\n0\r\nx-t: ",
            b"x" * 100,
            "more than 65536 bytes between two pieces of the answer's body",
            id="one trailer",
        ),
    ],
)
async def test_whatever_goes_on_for_ever_is_an_error(client, beginning, piece, error):
    async with serving(endless(beginning, piece)) as server:
        answer = await client.post(server.url)
        assert answer == HttpAnswer(None, error=error)
        await until("it is closed", lambda: server.open == 0)


def lines(count: int, size: int) -> bytes:
    """So many headers, of so many bytes together."""
    each = size // count
    values = [each - 10] * (count - 1)
    values.append(size - sum(value + 10 for value in values) - 10)
    return b"".join(b"x-%04d: %b\r\n" % (number, b"v" * value) for number, value in enumerate(values))


async def test_a_head_of_64_kib_is_taken_and_a_larger_one_refused(client):
    most = b"HTTP/1.1 200 OK\r\n%bcontent-length: 0\r\n\r\n"
    room = 64 * 1024 - len(b"content-length: 0\r\n")
    async with serving(answering(most % lines(4, room), most % lines(4, room + 1))) as server:
        taken, refused = await client.post(server.url), await client.post(server.url)
    assert taken.status == 200
    assert sum(len(name) + len(value) + 4 for name, value in taken.headers) == 64 * 1024
    assert refused == HttpAnswer(None, error=HEAD_TOO_LARGE)


async def test_256_headers_are_taken_and_one_more_refused(client):
    most = b"HTTP/1.1 200 OK\r\n%bcontent-length: 0\r\n\r\n"
    async with serving(answering(most % lines(255, 5000), most % lines(256, 5000))) as server:
        taken, refused = await client.post(server.url), await client.post(server.url)
    assert len(taken.headers) == 256
    assert refused == HttpAnswer(None, error=TOO_MANY_HEADERS)


async def test_16_interim_answers_are_passed_over_and_one_more_refused(client):
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    async with serving(answering(interim * 16 + ACCEPTED, interim * 17 + ACCEPTED)) as server:
        taken, refused = await client.post(server.url), await client.post(server.url)
    assert taken == HttpAnswer(202, ((b"content-length", b"0"),))
    assert refused == HttpAnswer(None, error="more than 16 interim answers")


async def test_a_reply_as_large_as_a_head_may_be_comes_in_one_header(either):
    value = b"v" * 60_000
    async with serving(answering(b"HTTP/1.1 200 OK\r\nce-a: %b\r\ncontent-length: 0\r\n\r\n" % value)) as server:
        answer = await either.post(server.url)
    assert answer.header(b"ce-a") == value


def dripped(size: int) -> Iterator[bytes]:
    """A body that can't be kept in pieces: each of them costs more than its bytes."""
    yield CHUNKED
    for _ in range(size // 2000):
        yield b"2\r\nab\r\n" * 1000


async def test_a_body_in_tiny_chunks_takes_no_more_room_than_its_bytes(client):
    async def script(peer: Peer) -> None:
        await peer.request()
        for piece in dripped(MIB):
            await peer.say(piece)
        await peer.gone()

    async with serving(script) as server:
        tracemalloc.start()
        try:
            answer = await client.post(server.url, limit=MIB // 2)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (len(answer.body), answer.truncated) == (MIB // 2, True)
    # Kept piece by piece it would be 12 MiB.
    assert peak < 5 * MIB


async def test_idle_connections_do_not_hold_their_last_answers(client):
    body = bytes(MIB)
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (MIB, body))) as server:
        tracemalloc.start()
        try:
            await asyncio.gather(*(client.post(server.url) for _ in range(16)))
            # The event loop lets go of what it has just called in its next round.
            await asyncio.sleep(0.01)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert server.open == 16
    assert held < 4 * MIB
