"""No server can make the client hold more than its limits, however long it goes on."""

from __future__ import annotations

import itertools

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.http_clients import MIB
from tests.support.http.raw_server import ACCEPTED, Peer, Script, answering, saying, serving
from tests.support.waiting import until

# What claims to be an event is kept whole: it may be a reply.
HEAD = b"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 500 Oh No\r\n"


def framed(body: bytes, head: bytes = HEAD) -> dict[str, bytes]:
    """The three ways of saying where a body ends."""
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return {
        "length": b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body),
        "chunks": b"%btransfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % (head, chunk),
        "end": b"%b\r\n%b" % (head, body),
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
@pytest.mark.parametrize(
    ("head", "reply"),
    [
        pytest.param(PLAIN, True, id="no event"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n", True, id="a page"),
        pytest.param(HEAD + b"content-type: application/cloudevents-batch+json\r\n", True, id="a batch"),
        pytest.param(HEAD, False, id="an event that nobody wants"),
    ],
)
async def test_of_what_is_no_reply_the_beginning_is_kept(client, framing, head, reply):
    body = bytes(range(256)) * 4096
    async with serving(saying(framed(body, head)[framing])) as server:
        answer = await client.post(server.url, limit=2 * MIB, reply=reply)
    assert answer.body == body[:1024]
    assert answer.truncated


@pytest.mark.parametrize(
    "content_type", [b"application/cloudevents+json", b"Application/CloudEvents+JSON; charset=utf-8"]
)
async def test_an_event_in_structured_mode_is_kept_whole(client, content_type):
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n" % content_type
    async with serving(saying(framed(bytes(MIB), head)["length"])) as server:
        answer = await client.post(server.url, limit=MIB)
    assert (answer.body, answer.truncated) == (bytes(MIB), False)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024])
async def test_a_small_body_is_kept_whole_whatever_it_is(client, size):
    async with serving(saying(framed(bytes(size), PLAIN)["length"])) as server:
        answer = await client.post(server.url, reply=False)
    assert (answer.body, answer.truncated) == (bytes(size), False)


async def test_what_is_thrown_away_costs_no_connection_within_the_limit(client):
    async with serving(answering(framed(bytes(2000), PLAIN)["length"])) as server:
        for _ in range(3):
            assert (await client.post(server.url, limit=2000)).truncated
        assert server.connections == 1
        assert (await client.post(server.url, limit=1999)).truncated
        await until("it is closed", lambda: server.open == 0)


@pytest.mark.parametrize("framing", ["length", "chunks", "end"])
async def test_a_cut_body_costs_the_connection(client, framing):
    async with serving(answering(framed(b"12345")[framing])) as server:
        assert (await client.post(server.url, limit=4)).truncated
        await until("it is closed", lambda: server.open == 0)


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        pytest.param(HEAD + b"\r\n", b"x" * 1000, id="until it ends"),
        pytest.param(HEAD + b"content-length: 99999999999\r\n\r\n", b"x" * 1000, id="with a length"),
        pytest.param(CHUNKED, b"1000\r\n" + b"x" * 0x1000 + b"\r\n", id="in chunks"),
        pytest.param(CHUNKED, b"1\r\nx\r\n" * 100, id="in chunks of one byte"),
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
