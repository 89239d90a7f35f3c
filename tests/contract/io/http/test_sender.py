"""POSTs that are sent and answered by callbacks: the same bytes and deadline as those that are awaited."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import InvalidEvent, InvalidSpec
from headrace.core.http import Headers, HttpAnswer
from headrace.io.http import HttpClient
from tests.support.http.raw_server import ACCEPTED, Peer, RawServer, answering, serving
from tests.support.loop_clock import exactly
from tests.support.waiting import until

LINES = b"ce-id: 1\r\nce-type: t\r\n"
CLOSING: Headers = ((b"kn-namespace", b"shop"), (b"prefer", b"reply"))
MIB = 1024 * 1024


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient()
    yield client
    await client.close()


async def opened(client: HttpClient, server: RawServer) -> None:
    """Leave a connection to the server idle."""
    answer = await client.post(Destination(server.url), (), b"first", timedelta(seconds=60), MIB)
    assert answer.status == 202


async def sent(client: HttpClient, server: RawServer, body: bytes = b"{}", seconds: float = 60.0) -> HttpAnswer:
    told: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
    sender = client.sender(Destination(server.url), CLOSING, timedelta(seconds=seconds), MIB)
    assert sender.send(LINES, body, told.set_result) is not None
    return await told


async def accept_then_hang(peer: Peer) -> None:
    await peer.request()
    await peer.say(ACCEPTED)
    await peer.request()
    await peer.gone()


async def hang_up_on_the_second(peer: Peer) -> None:
    await peer.request()
    await peer.say(ACCEPTED)
    await peer.request()


@pytest.mark.parametrize("serve", [answering(ACCEPTED), hang_up_on_the_second], ids=["answered", "not answered"])
async def test_nothing_holds_an_event_that_was_answered(client, serve):
    """No cycle either: the collector counts objects, and a few large events would stay for minutes."""
    async with serving(serve) as server:
        await opened(client, server)
        body = bytes(MIB)
        gc.collect()
        before = sys.getrefcount(body)
        gc.disable()
        try:
            told: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
            sender = client.sender(Destination(server.url), CLOSING, timedelta(seconds=60), MIB)
            sender.send(LINES, body, told.set_result)
            await told
            await asyncio.sleep(0)
            assert sys.getrefcount(body) == before
        finally:
            gc.enable()


async def test_without_an_open_connection_nothing_is_sent(client):
    async with serving(answering(ACCEPTED)) as server:
        sender = client.sender(Destination(server.url), CLOSING, timedelta(seconds=60), MIB)
        assert sender.send(LINES, b"{}", lambda _: None) is None
        await opened(client, server)
        assert [request.body for request in server.requests] == [b"first"]


async def test_the_bytes_are_those_of_a_post_that_is_awaited(client):
    async with serving(answering(ACCEPTED)) as server:
        await opened(client, server)
        assert await sent(client, server) == HttpAnswer(202, ((b"content-length", b"0"),))
        headers = ((b"ce-id", b"1"), (b"ce-type", b"t"), *CLOSING)
        await client.post(Destination(server.url), headers, b"{}", timedelta(seconds=60), MIB)
        _, straight, awaited = server.requests
        assert straight == awaited
        assert server.connections == 1


async def test_answers_that_repeat_and_answers_that_differ_are_each_what_they_are(client):
    said = [
        ACCEPTED,
        ACCEPTED,
        b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno",
        ACCEPTED,
        b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nno",
    ]

    async def script(peer: Peer) -> None:
        for answer in (ACCEPTED, *said):
            await peer.request()
            await peer.say(answer)

    async with serving(script) as server:
        await opened(client, server)
        found = [await sent(client, server) for _ in said]
        assert [(answer.status, answer.body) for answer in found] == [
            (202, b""),
            (202, b""),
            (503, b"no"),
            (202, b""),
            (503, b"no"),
        ]
        assert server.connections == 1


async def test_one_that_meets_a_closing_connection_is_stale_and_goes_out_once(client):
    async with serving(hang_up_on_the_second, answering(ACCEPTED)) as server:
        await opened(client, server)
        answer = await sent(client, server, b"event")
        assert answer == HttpAnswer(None, error="the server closed the connection without an answer", stale=True)
        assert [request.body for request in server.requests] == [b"first", b"event"]


async def test_the_deadline_is_exact(client):
    async with serving(accept_then_hang) as server:
        await opened(client, server)
        answer = await exactly(0.3, sent(client, server, seconds=0.3))
        assert answer == HttpAnswer(None, error="no answer within 0.3 s")
        await until("the connection is closed", lambda: server.open == 0)


async def test_a_connection_that_breaks_in_the_middle_of_the_answer_is_an_error(client):
    async def script(peer: Peer) -> None:
        await hang_up_on_the_second(peer)
        await peer.say(b"H")

    async with serving(script, answering(ACCEPTED)) as server:
        await opened(client, server)
        answer = await sent(client, server)
        assert answer == HttpAnswer(None, error="the server closed the connection in the middle of its answer")
        assert server.connections == 1


async def test_who_cancels_is_told_nothing_and_the_connection_is_closed(client):
    told: list[HttpAnswer] = []
    async with serving(accept_then_hang) as server:
        await opened(client, server)
        posting = client.sender(Destination(server.url), (), timedelta(seconds=60), MIB).send(LINES, b"", told.append)
        await until("it hangs", lambda: len(server.requests) == 2)
        posting.cancel()
        await until("the connection is closed", lambda: server.open == 0)
    assert told == []


async def test_a_client_that_is_closed_tells_whoever_waits(client):
    async with serving(accept_then_hang) as server:
        await opened(client, server)
        waiting = asyncio.ensure_future(sent(client, server))
        await until("it hangs", lambda: len(server.requests) == 2)
        await client.close()
        assert await waiting == HttpAnswer(None, error="the connection was closed on our side")


async def test_what_can_t_be_sent_is_refused_before_there_is_an_event(client):
    with pytest.raises(InvalidSpec):
        client.sender(Destination("ftp://host/"), (), timedelta(seconds=1), MIB)
    with pytest.raises(InvalidEvent):
        client.sender(Destination("http://host/"), ((b"a", b"b\r\nc: d"),), timedelta(seconds=1), MIB)
    with pytest.raises(InvalidEvent):
        client.sender(Destination("http://host/"), ((b"user-agent", b"mine"),), timedelta(seconds=1), MIB)
