"""The deadline holds for everything, to the tick: the client's clock is a promise of the delivery policy."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.full_queue import nobody_accepting
from tests.support.http.raw_server import ACCEPTED, Peer, serving
from tests.support.loop_clock import exactly
from tests.support.waiting import until


async def hang(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def hang_without_reading(_: Peer) -> None:
    await asyncio.Event().wait()


async def drip_a_head(peer: Peer) -> None:
    await peer.request()
    await peer.say(b"HTTP/1.1 200 OK\r\n", *([b"x-a: 1\r\n"] * 1000), pause=0.02)


async def drip_a_body(peer: Peer) -> None:
    await peer.request()
    await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", *([b"x"] * 1000), pause=0.02)


async def drip_interim_answers(peer: Peer) -> None:
    await peer.request()
    await peer.say(*([b"HTTP/1.1 102 Processing\r\n\r\n"] * 15), pause=0.2)


@pytest.mark.parametrize("script", [hang, hang_without_reading, drip_a_head, drip_a_body, drip_interim_answers])
async def test_an_answer_that_is_not_whole_in_time_is_none(either, script):
    async with serving(script) as server:
        answer = await exactly(0.3, either.post(server.url, seconds=0.3))
        assert answer == HttpAnswer(None, error="no answer within 0.3 s")
        await until("the connection is closed", lambda: server.open == 0 or script is hang_without_reading)


async def test_a_body_that_is_not_taken_in_time_has_no_answer(client):
    async with serving(hang_without_reading) as server:
        answer = await exactly(0.3, client.post(server.url, (), bytes(32 * 1024 * 1024), seconds=0.3))
    assert answer.error == "no answer within 0.3 s"


async def test_a_connection_that_is_not_there_in_time_has_no_answer(either):
    async with nobody_accepting() as silent:
        url = "http://{}:{}/".format(*silent.address)
        answer = await exactly(0.3, either.post(url, seconds=0.3))
    assert answer.error == "no answer within 0.3 s"


async def test_no_time_at_all_is_too_little(client):
    async with serving(hang) as server:
        answer = await exactly(0, client.post(server.url, seconds=0))
        assert answer.error == "no answer within 0 s"
        # The server may have seen the beginning of it: let it see the end, too.
        await asyncio.sleep(0.05)


async def test_each_post_on_one_connection_has_its_own_deadline(client):
    async def answer_after_as_many_seconds(peer: Peer) -> None:
        while True:
            delay = float((await peer.request()).body)
            await asyncio.sleep(delay)
            await peer.say(ACCEPTED)

    async with serving(answer_after_as_many_seconds) as server:
        assert (await client.post(server.url, (), b"0", seconds=60)).status == 202
        # Shorter than the one before: its timer must not wait for that of the other.
        answer = await exactly(0.2, client.post(server.url, (), b"60", seconds=0.2))
        assert answer.error == "no answer within 0.2 s"
        # Longer than the one before: that timer must not end it.
        assert (await client.post(server.url, (), b"0", seconds=2)).status == 202
        assert (await client.post(server.url, (), b"2.2", seconds=60)).status == 202
        answer = await exactly(0.5, client.post(server.url, (), b"60", seconds=0.5))
        assert answer.error == "no answer within 0.5 s"
        assert server.connections == 2


async def test_one_slow_server_slows_nobody_else(client):
    async def quick(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(ACCEPTED)

    async with serving(hang) as slow, serving(quick) as fast:
        waiting = [asyncio.ensure_future(client.post(slow.url)) for _ in range(100)]
        await until("they are under way", lambda: len(slow.requests) == 100)
        assert (await exactly(0, client.post(fast.url))).status == 202
        for posting in waiting:
            assert posting.cancel()
        await asyncio.wait(waiting)
