"""The bytes of a POST, and events that are refused before any byte is sent."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.http_clients import MIB
from tests.support.http.raw_server import ACCEPTED, Peer, answering, serving

EVENT = (
    (b"content-type", b"application/json"),
    (b"ce-id", b"1"),
    (b"ce-specversion", b"1.0"),
    (b"Ce-Odd-Case", b"as it is"),
    (b"ce-id", b"twice"),
)


async def test_a_request_is_one_post_with_the_headers_in_their_order(either):
    async with serving(answering(ACCEPTED)) as server:
        await either.post(f"{server.url}/orders", EVENT, b"12345")
    (request,) = server.requests
    assert request.lines[0] == b"POST /orders HTTP/1.1"
    # aiohttp sends the length before the others.
    assert sorted(request.lines[1:]) == sorted(
        [
            b"Host: 127.0.0.1:%d" % server.port,
            b"User-Agent: headrace",
            b"content-type: application/json",
            b"ce-id: 1",
            b"ce-specversion: 1.0",
            b"Ce-Odd-Case: as it is",
            b"ce-id: twice",
            b"Content-Length: 5",
        ]
    )
    assert [line for line in request.lines[1:] if line.lower().startswith(b"ce-")] == [
        b"ce-id: 1",
        b"ce-specversion: 1.0",
        b"Ce-Odd-Case: as it is",
        b"ce-id: twice",
    ]
    assert request.body == b"12345"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        pytest.param("", b"/", id="no path"),
        pytest.param("/", b"/", id="the root"),
        pytest.param("?a=1", b"/?a=1", id="a query without a path"),
        pytest.param("/a%2Fb/%C3%A9?c=%20d&e=%26#f", b"/a%2Fb/%C3%A9?c=%20d&e=%26", id="encoded as it was"),
        pytest.param("/a/../b//c/.", b"/a/../b//c/.", id="no path is tidied up"),
        pytest.param("/a;v=1:2@3!$&'()*+,=~", b"/a;v=1:2@3!$&'()*+,=~", id="all that needs no encoding"),
    ],
)
async def test_path_and_query_are_sent_as_they_are(either, path, target):
    async with serving(answering(ACCEPTED)) as server:
        await either.post(server.url + path)
    assert [request.target for request in server.requests] == [target]


@pytest.mark.parametrize("size", [0, 1, 1024, 64 * 1024, 64 * 1024 + 1, MIB])
async def test_a_body_of_any_size_arrives_whole(either, size):
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with serving(answering(ACCEPTED)) as server:
        answer = await either.post(server.url, EVENT, body)
    (request,) = server.requests
    assert answer.status == 202
    assert b"\r\nContent-Length: %d\r\n" % size in request.head
    assert request.body == body


async def test_a_body_larger_than_all_buffers_arrives_whole(client):
    body = bytes(range(256)) * (16 * MIB // 256)
    async with serving(answering(ACCEPTED)) as server:
        answers = [await client.post(server.url, EVENT, body) for _ in range(2)]
    assert [answer.status for answer in answers] == [202, 202]
    assert [request.body == body for request in server.requests] == [True, True]
    assert server.connections == 1


async def test_header_values_are_sent_byte_by_byte(client):
    # aiohttp encodes what is not ASCII twice.
    async with serving(answering(ACCEPTED)) as server:
        await client.post(server.url, ((b"ce-subject", b"caf\xc3\xa9 \xff\t."),))
    assert b"ce-subject: caf\xc3\xa9 \xff\t." in server.requests[0].lines


async def test_the_caller_may_call_himself_something_else(either):
    async with serving(answering(ACCEPTED)) as server:
        await either.post(server.url, ((b"user-agent", b"somebody/1"),))
        await either.post(server.url)
    agents = [[line for line in request.lines if line.lower().startswith(b"user-agent")] for request in server.requests]
    assert [[line.lower() for line in lines] for lines in agents] == [
        [b"user-agent: somebody/1"],
        [b"user-agent: headrace"],
    ]


@pytest.mark.parametrize(
    "header",
    [
        (b"host", b"elsewhere"),
        (b"Host", b"elsewhere"),
        (b"content-length", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"CONNECTION", b"close"),
    ],
)
async def test_the_caller_has_no_say_in_the_framing(client, header):
    async with serving(answering(ACCEPTED)) as server:
        await client.post(server.url, (header, (b"ce-id", b"1")), b"12345")
        assert server.requests[0].lines == [
            b"POST / HTTP/1.1",
            b"Host: 127.0.0.1:%d" % server.port,
            b"User-Agent: headrace",
            b"ce-id: 1",
            b"Content-Length: 5",
        ]


SMUGGLING = [b"a\r\nx-b: 1", b"a\n", b"\r", b"a\0b", b"\x1b[0m", b"\x7f"]


@pytest.mark.parametrize("bad", SMUGGLING)
async def test_a_header_value_that_could_smuggle_is_refused(either, bad):
    async with serving(answering(ACCEPTED)) as server:
        answer = await either.post(server.url, ((b"ce-id", b"1"), (b"ce-bad", bad)))
    assert answer == HttpAnswer(None, error=answer.error)
    assert answer.error
    assert server.requests == []


@pytest.mark.parametrize("bad", SMUGGLING)
async def test_the_refusal_names_the_header(client, bad):
    answer = await client.post("http://127.0.0.1:9/", ((b"ce-id", b"1"), (b"ce-bad", bad)))
    assert answer.error == "'ce-bad': its value holds control characters, which no HTTP header may"


@pytest.mark.parametrize("bad", [b"", b"a b", b"a:b", b"a\r\nx", b"a\nb", b"a\0", b"caf\xc3\xa9", b"(a)"])
async def test_a_header_name_that_is_none_is_refused(client, bad):
    async with serving(answering(ACCEPTED)) as server:
        answer = await client.post(server.url, ((bad, b"1"),))
    assert answer == HttpAnswer(None, error=answer.error)
    assert "can't be the name of an HTTP header" in answer.error
    assert server.requests == []


@pytest.mark.parametrize("path", ["/a\r\nx-b: 1", "/a\nb", "/a b", "/a\0", "/?a=\r", "/a\tb"])
async def test_a_path_that_could_smuggle_is_refused(client, path):
    async with serving(answering(ACCEPTED)) as server:
        answer = await client.post(server.url + path)
    assert answer == HttpAnswer(None, error=answer.error)
    assert "holds blanks or control characters" in answer.error
    assert server.connections == 0


async def test_a_user_or_password_is_never_sent(client):
    async with serving(answering(ACCEPTED)) as server:
        answer = await client.post(f"http://user:secret@127.0.0.1:{server.port}/")
    assert answer == HttpAnswer(None, error=answer.error)
    assert "names a user or password" in answer.error
    assert "secret" not in answer.error
    assert server.connections == 0


async def test_a_server_that_does_not_read_makes_nobody_buffer(client):
    async def script(peer: Peer) -> None:
        await peer.head()
        await asyncio.Event().wait()

    body = bytes(32 * MIB)
    async with serving(script) as server:
        tracemalloc.start()
        try:
            answer = await client.post(server.url, (), body, seconds=0.5)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.error == "no answer within 0.5 s"
    # Most of it is what the server of the test has read ahead.
    assert peak < 6 * MIB
