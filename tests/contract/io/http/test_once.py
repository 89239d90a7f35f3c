"""A POST goes out once: only its receiver knows what became of one without an answer."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.raw_server import ACCEPTED, Peer, answering, serving
from tests.support.waiting import until


async def hang_up(peer: Peer) -> None:
    await peer.request()


async def hang_up_on_the_second(peer: Peer) -> None:
    """As a server whose keep-alive ends while the request is under way, or one that takes it and then breaks."""
    await peer.request()
    await peer.say(ACCEPTED)
    await peer.request()


async def reset_the_second(peer: Peer) -> None:
    await hang_up_on_the_second(peer)
    peer.reset()


async def test_one_whose_kept_connection_the_server_closes_is_stale(either):
    async with serving(hang_up_on_the_second, answering(ACCEPTED)) as server:
        found = [await either.post(server.url, (), b"%d" % turn) for turn in range(2)]
        assert [answer.status for answer in found] == [202, None]
        assert [request.body for request in server.requests] == [b"0", b"1"]


@pytest.mark.parametrize("script", [hang_up_on_the_second, reset_the_second])
async def test_it_says_that_it_is_stale(client, script):
    async with serving(script, answering(ACCEPTED)) as server:
        assert (await client.post(server.url)).status == 202
        answer = await client.post(server.url)
        assert answer == HttpAnswer(None, error=answer.error, stale=True)
        assert answer.error.endswith("without an answer")
        assert (await client.post(server.url)).status == 202
        assert (len(server.requests), server.connections) == (3, 2)


async def test_one_on_a_new_connection_is_not_stale(client):
    async with serving(hang_up, answering(ACCEPTED)) as server:
        answer = await client.post(server.url)
        assert answer == HttpAnswer(None, error="the server closed the connection without an answer")
        assert server.connections == 1


async def test_one_whose_answer_has_begun_is_not_stale(client):
    async def script(peer: Peer) -> None:
        await hang_up_on_the_second(peer)
        await peer.say(b"H")

    async with serving(script, answering(ACCEPTED)) as server:
        await client.post(server.url)
        answer = await client.post(server.url)
        assert answer == HttpAnswer(None, error="the server closed the connection in the middle of its answer")
        await client.post(server.url)
        assert server.connections == 2


async def test_one_that_we_give_up_is_not_stale(client):
    async def hang(peer: Peer) -> None:
        await hang_up_on_the_second(peer)
        await peer.gone()

    async with serving(hang) as server:
        await client.post(server.url)
        assert await client.post(server.url, seconds=0.2) == HttpAnswer(None, error="no answer within 0.2 s")
        await client.post(server.url)
        waiting = asyncio.ensure_future(client.post(server.url))
        await until("it hangs", lambda: len(server.requests) == 4)
        await client.close()
        assert await waiting == HttpAnswer(None, error="the connection was closed on our side")
