"""Answers to a POST, whatever the server says: one table for our client and for the one on aiohttp.

Both agree, so that each can take the other's place; where ours is better, the test says so.
"""

from __future__ import annotations

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.raw_server import ACCEPTED, Peer, answering, saying, serving


def answer(status, *headers, body=b"", truncated=False):
    return HttpAnswer(status, headers, body, truncated)


NOTHING = (b"content-length", b"0")
CHUNKED = (b"transfer-encoding", b"chunked")

WHOLE = [
    pytest.param(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello",
        answer(200, (b"content-length", b"5"), (b"x-a", b"1"), body=b"hello"),
        id="header names come in lower case, values and order as they are",
    ),
    pytest.param(b"HTTP/1.1 202\r\ncontent-length: 0\r\n\r\n", answer(202, NOTHING), id="no reason phrase"),
    pytest.param(b"HTTP/1.1 202 Accepted\r\n\r\n", answer(202), id="the end of the connection ends the body"),
    pytest.param(b"HTTP/1.0 200 OK\r\n\r\nold", answer(200, body=b"old"), id="HTTP/1.0"),
    pytest.param(b"HTTP/1.1 200 OK\n\nbare", answer(200, body=b"bare"), id="lines that end without CR"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        answer(200, CHUNKED, body=b"abcde"),
        id="chunks, and an extension of one",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
        answer(200, CHUNKED, body=b"abc"),
        id="a padded chunk size",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-t: 1\r\n\r\n",
        answer(200, CHUNKED),
        id="trailers are no headers",
    ),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + ACCEPTED,
        answer(202, NOTHING),
        id="interim answers are passed over",
    ),
    pytest.param(b"HTTP/1.1 304 Not Modified\r\n\r\n", answer(304), id="304 has no body"),
    pytest.param(
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        answer(302, (b"location", b"http://127.0.0.1:1/"), NOTHING),
        id="redirects are not followed",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00",
        answer(200, (b"content-encoding", b"gzip"), (b"content-length", b"4"), body=b"\x1f\x8b\x08\x00"),
        id="nothing is decompressed",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nce-subject: caf\xc3\xa9 \xff\r\ncontent-length: 0\r\n\r\n",
        answer(200, (b"ce-subject", b"caf\xc3\xa9 \xff"), NOTHING),
        id="header values are bytes",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nx-empty:\r\nx-blank:  a  \r\ncontent-length: 0\r\n\r\n",
        answer(200, (b"x-empty", b""), (b"x-blank", b"a"), NOTHING),
        id="blanks around a value are none of it",
    ),
    pytest.param(
        b"HTTP/1.1 200 OK\r\nx-folded: a\r\n b\r\ncontent-length: 0\r\n\r\n",
        answer(200, (b"x-folded", b"a b"), NOTHING),
        id="a folded value",
    ),
    pytest.param(ACCEPTED + b"HTTP/1.1 500 Not yours\r\n\r\n", answer(202, NOTHING), id="a second answer"),
]


@pytest.mark.parametrize(("said", "expected"), WHOLE)
async def test_an_answer_comes_back_as_it_is(either, said, expected):
    async with serving(saying(said)) as server:
        assert await either.post(server.url) == expected


@pytest.mark.parametrize(("said", "expected"), WHOLE)
async def test_an_answer_may_come_byte_by_byte(either, said, expected):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*(said[place : place + 1] for place in range(len(said))))

    async with serving(script) as server:
        assert await either.post(server.url) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello",
            answer(204, (b"content-length", b"5")),
            id="a body where there is none",
        ),
        pytest.param(ACCEPTED + b"\0garbage", answer(202, NOTHING), id="bytes that are no HTTP"),
        pytest.param(
            b"HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\nmore",
            answer(202, (b"connection", b"close"), NOTHING),
            id="bytes behind the last answer",
        ),
    ],
)
async def test_a_whole_answer_counts_whatever_comes_behind_it_in_the_same_segment(client, said, expected):
    # aiohttp makes an error of these: the event would be delivered twice.
    async with serving(saying(said)) as server:
        assert await client.post(server.url) == expected


@pytest.mark.parametrize("length", [0, 3, 5, 500], ids=["none", "too short", "right", "too long"])
@pytest.mark.parametrize("first", [True, False], ids=["length first", "chunks first"])
async def test_chunks_count_where_a_length_stands_beside_them_and_the_connection_ends(client, length, first):
    # aiohttp makes an error of it; Go's client reads it so, and RFC 9112 section 6.3 says it.
    framing = [b"content-length: %d\r\n" % length, b"transfer-encoding: chunked\r\n"]
    head = b"HTTP/1.1 200 OK\r\n%b\r\n" % b"".join(framing if first else reversed(framing))
    async with serving(answering(head + b"5\r\nhello\r\n0\r\n\r\n")) as server:
        for posts in (1, 2, 3):
            found = await client.post(server.url)
            assert (found.status, found.body) == (200, b"hello")
            assert server.connections == posts


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 20", id="half a status line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a: 1\r\n", id="half a head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="nothing after an interim answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", id="half a body"),
        pytest.param(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhell", id="half a chunk"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", id="chunks without an end"
        ),
        pytest.param(b"<html>", id="no status line"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 2x0 OK\r\n\r\n", id="a status that is no number"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", id="a status of two digits"),
        pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", id="a status of four digits"),
        pytest.param(b"HTTP/9.9 200 OK\r\n\r\n", id="a version that does not exist"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx a: 1\r\n\r\n", id="a header name with a blank"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx\x00a: 1\r\n\r\n", id="a header name with NUL"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a: 1\x002\r\n\r\n", id="a header value with NUL"),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-a: 1\r2\r\n\r\n", id="a header value with CR"),
        pytest.param(b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n", id="a header line without a colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\nhello", id="a length that is no number"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello", id="a negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 5\r\n\r\nhello", id="two lengths"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfive\r\n", id="a chunk size that is no number"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n", id="a chunk too long"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n", id="an endless chunk"
        ),
    ],
)
async def test_what_is_no_whole_answer_is_an_error_that_says_so(either, said):
    async with serving(saying(said)) as server:
        found = await either.post(server.url)
        assert found == HttpAnswer(None, error=found.error)
        assert found.error
        assert server.connections == 1


async def test_a_control_character_in_a_header_value_is_an_error(client):
    # aiohttp lets all but NUL pass.
    async with serving(saying(b"HTTP/1.1 200 OK\r\nx-a: 1\x1b2\r\n\r\n")) as server:
        found = await client.post(server.url)
        assert found == HttpAnswer(None, error="a header of the answer holds control characters")


async def test_every_status_comes_back(either):
    async def script(peer: Peer) -> None:
        while True:
            status = int((await peer.request()).target.removeprefix(b"/"))
            bodiless = status < 200 or status in (204, 304)
            said = b"HTTP/1.1 %d Whatever\r\n%b\r\n" % (status, b"" if bodiless else b"content-length: 2\r\n")
            await peer.say(said if bodiless else said + b"ok", *([] if status >= 200 or status == 101 else [ACCEPTED]))

    async with serving(script) as server:
        found = {status: await either.post(f"{server.url}/{status}") for status in range(100, 600)}
    final = {status: status if status >= 200 or status == 101 else 202 for status in range(100, 600)}
    assert {status: answer.status for status, answer in found.items()} == final
    bodies = {status: b"ok" if status >= 200 and status not in (204, 304) else b"" for status in range(100, 600)}
    assert {status: answer.body for status, answer in found.items()} == bodies
