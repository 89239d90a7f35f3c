"""A POST that meets a connection which the server is just closing goes out again: once, and on a new connection."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.raw_server import ACCEPTED, Peer, answering, serving


async def hang_up_on_the_second(peer: Peer) -> None:
    """As a server whose keep-alive ends while the request is under way."""
    await peer.request()
    await peer.say(ACCEPTED)
    await peer.request()


async def reset_the_second(peer: Peer) -> None:
    await hang_up_on_the_second(peer)
    peer.reset()


async def test_a_post_that_meets_a_closing_connection_goes_out_again_on_a_new_one(either):
    async with serving(hang_up_on_the_second, answering(ACCEPTED)) as server:
        found = [await either.post(server.url, (), b"%d" % turn) for turn in range(2)]
        assert [answer.status for answer in found] == [202, 202]
        assert server.connections == 2
        assert [request.body for request in server.requests] == [b"0", b"1", b"1"]


async def test_so_does_one_whose_connection_is_reset(client):
    # aiohttp calls this an error of its own kind.
    async with serving(reset_the_second, answering(ACCEPTED)) as server:
        found = [await client.post(server.url) for _ in range(2)]
        assert [answer.status for answer in found] == [202, 202]
        assert server.connections == 2


@pytest.mark.parametrize("script", [hang_up_on_the_second, reset_the_second])
async def test_it_goes_out_again_only_once(client, script):
    async def hang_up(peer: Peer) -> None:
        await peer.request()

    async with serving(script, hang_up, answering(ACCEPTED)) as server:
        await client.post(server.url)
        answer = await client.post(server.url)
        assert answer == HttpAnswer(None, error="the server closed the connection without an answer")
        assert server.connections == 2


async def test_it_goes_out_again_on_a_new_connection_although_others_are_idle(client):
    """They may be as stale as the first was: a third try would be one too many."""
    async with serving(*[hang_up_on_the_second] * 3, answering(ACCEPTED)) as server:
        await asyncio.gather(*(client.post(server.url) for _ in range(3)))
        assert (server.connections, server.open) == (3, 3)
        assert (await client.post(server.url, (), b"once more")).status == 202
        assert (server.connections, server.open) == (4, 3)
        assert [request.body for request in server.requests].count(b"once more") == 2


async def test_each_post_goes_out_twice_at_most_however_often_the_server_hangs_up(client):
    """Two attempts of one event meet a server that always ends the second exchange of a connection, unanswered."""

    async def hang_up(peer: Peer) -> None:
        await peer.request()

    async with serving(hang_up_on_the_second, hang_up) as server:
        await client.post(server.url)
        for _ in range(2):
            assert (await client.post(server.url, (), b"event")).status is None
        # Twice for the first attempt, whose connection had been idle; once for the second, whose was new.
        assert [request.body for request in server.requests].count(b"event") == 3
        assert server.connections == 3


async def test_a_new_connection_that_is_closed_without_an_answer_is_an_error(either):
    async def hang_up(peer: Peer) -> None:
        await peer.request()

    async with serving(hang_up, answering(ACCEPTED)) as server:
        answer = await either.post(server.url)
        assert answer == HttpAnswer(None, error=answer.error)
        assert server.connections == 1


async def test_a_kept_connection_that_breaks_in_the_middle_of_the_answer_is_an_error(client):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(ACCEPTED)
        await peer.request()
        await peer.say(b"H")

    async with serving(script, answering(ACCEPTED)) as server:
        await client.post(server.url)
        answer = await client.post(server.url)
        assert answer == HttpAnswer(None, error="the server closed the connection in the middle of its answer")
        assert server.connections == 1
