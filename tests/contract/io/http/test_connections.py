"""Which connections are used again, which never, and that every one is closed in the end."""

from __future__ import annotations

import asyncio
import random

import pytest

from headrace.core.http import HttpAnswer
from tests.support.http.http_clients import opened
from tests.support.http.raw_server import ACCEPTED, Peer, answering, serving
from tests.support.loop_clock import exactly
from tests.support.waiting import until

WAITING = b"HTTP/1.1 202 Accepted\r\nkeep-alive: timeout=%d\r\ncontent-length: 0\r\n\r\n"
CLOSING = b"HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


async def test_ten_thousand_posts_take_one_connection(client):
    async with serving(answering(ACCEPTED)) as server:
        for _ in range(10_000):
            assert (await client.post(server.url)).status == 202
        assert (server.connections, len(server.requests)) == (1, 10_000)


async def test_posts_one_after_the_other_take_one_connection(either):
    body = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-t: 1\r\n\r\n"
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    empty = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with serving(answering(body, interim + ACCEPTED, empty, ACCEPTED)) as server:
        found = [await either.post(f"{server.url}/{turn}") for turn in range(5)]
        assert [answer.status for answer in found] == [200, 202, 204, 202, 202]
        assert server.connections == 1


async def test_nobody_there_is_an_error_that_tells_where(client):
    async with serving(answering(ACCEPTED)) as server:
        pass
    answer = await client.post(server.url)
    assert answer == HttpAnswer(None, error=f"can't connect to 127.0.0.1:{server.port}: 127.0.0.1: Connection refused")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(CLOSING, id="Connection: close"),
        pytest.param(b"HTTP/1.0 202 Accepted\r\ncontent-length: 0\r\n\r\n", id="HTTP/1.0"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nx", id="an upgrade"),
        pytest.param(ACCEPTED + b"HTTP/1.1 200 OK\r\n", id="half an answer that nobody asked for"),
        pytest.param(ACCEPTED + ACCEPTED, id="a second answer"),
        pytest.param(ACCEPTED + b"\0", id="garbage"),
        pytest.param(b"HTTP/1.1 202 Accepted\r\nkeep-alive: timeout=0\r\ncontent-length: 0\r\n\r\n", id="no time"),
    ],
)
async def test_a_connection_is_closed_after(client, said):
    async with serving(answering(said)) as server:
        for _ in range(3):
            assert (await client.post(server.url)).status in (101, 202)
        assert server.connections == 3
        await until("all are closed", lambda: server.open == 0)


@pytest.mark.parametrize("stray", [b"x", ACCEPTED, b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"\r\n"])
async def test_bytes_on_an_idle_connection_close_it(client, stray):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(ACCEPTED, stray, pause=0.05)
        await peer.gone()

    async with serving(script) as server:
        await client.post(server.url)
        await until("it is closed", lambda: server.open == 0)
        await client.post(server.url)
        assert server.connections == 2


async def test_an_idle_connection_that_the_server_closes_is_never_used_again(client):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(ACCEPTED)
        peer.finish()
        await peer.gone()

    async with serving(script) as server:
        for turn in range(3):
            await client.post(server.url)
            await until("our end is closed, too", lambda: server.open == 0)
            assert len(server.requests) == turn + 1


async def test_the_connection_that_was_used_last_is_used_first(client):
    async with serving(
        answering(b"HTTP/1.1 202 Accepted\r\nkeep-alive: timeout=2\r\ncontent-length: 0\r\n\r\n")
    ) as server:
        await asyncio.gather(*(client.post(server.url) for _ in range(3)))
        assert (server.connections, server.open) == (3, 3)

        async def the_others_had_nothing_to_do_for_too_long() -> bool:
            await client.post(server.url)
            return server.open == 1

        # The server said 2 s, and 1 s of that is ours.
        await until("two are closed", the_others_had_nothing_to_do_for_too_long)
        assert server.connections == 3


async def test_an_idle_connection_is_closed_before_common_servers_do(client):
    async with serving(answering(ACCEPTED)) as server:
        await client.post(server.url)
        await exactly(1.5, until("it is closed", lambda: server.open == 0))


async def test_only_so_many_connections_are_kept():
    async with opened(most_idle=2) as client, serving(answering(ACCEPTED)) as server:
        await asyncio.gather(*(client.post(server.url) for _ in range(10)))
        await until("the others are closed", lambda: server.open == 2)
        await asyncio.gather(*(client.post(server.url) for _ in range(2)))
        assert server.connections == 10


async def test_an_answer_that_comes_before_all_is_sent_costs_the_connection(client):
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")
        await peer.gone()

    async with serving(script, answering(ACCEPTED)) as server:
        assert (await client.post(server.url, (), bytes(32 * 1024 * 1024))).status == 413
        assert (await client.post(server.url)).status == 202
        assert server.connections == 2


async def test_an_early_answer_counts_although_the_server_resets_the_rest(client):
    async def script(peer: Peer) -> None:
        await peer.head()
        await peer.say(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n")

    async with serving(script) as server:
        assert (await client.post(server.url, (), bytes(32 * 1024 * 1024))).status == 413


async def test_a_cancelled_post_closes_its_connection(either):
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with serving(script, answering(ACCEPTED)) as server:
        posting = asyncio.ensure_future(either.post(server.url))
        await until("the request is there", lambda: len(server.requests) == 1)
        posting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await posting
        await until("it is closed", lambda: server.open == 0)
        assert (await either.post(server.url)).status == 202


async def test_nobody_ever_gets_the_answer_to_another_request(client):
    """Cancelled, slow, closed and early: whatever happens to one exchange, the next is none the wiser."""
    chance = random.Random(4)

    async def script(peer: Peer) -> None:
        while True:
            mark = (await peer.request()).body
            await asyncio.sleep(chance.choice((0, 0, 0, 0.002)))
            said = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(mark), mark)
            cut = chance.choice((len(said), len(said), 20, len(said) - 1))
            await peer.say(said[:cut], said[cut:])
            if chance.random() < 0.1:
                return

    async def poster(number: int) -> None:
        for turn in range(100):
            mark = b"%d-%d" % (number, turn)
            posting = asyncio.ensure_future(client.post(server.url, (), mark))
            if chance.random() < 0.3:
                await asyncio.sleep(chance.choice((0, 0, 0.001, 0.002)))
                posting.cancel()
            try:
                answer = await posting
            except asyncio.CancelledError:
                continue
            assert answer.status is None or answer.body == mark
            answered.append(answer.status)

    answered: list[int | None] = []
    async with serving(script) as server:
        await asyncio.gather(*(poster(number) for number in range(10)))
        assert answered.count(200) > 500


async def test_closing_the_client_closes_every_connection_and_ends_what_waits(client):
    async def script(peer: Peer) -> None:
        if (await peer.request()).target == b"/quick":
            await peer.say(ACCEPTED)
        await peer.gone()

    async with serving(script) as server:
        waiting = [asyncio.ensure_future(client.post(server.url)) for _ in range(3)]
        await until("they are under way", lambda: len(server.requests) == 3)
        await client.post(f"{server.url}/quick")
        await client.close()
        assert (
            await asyncio.gather(*waiting)
            == [
                HttpAnswer(None, error="the connection was closed on our side"),
            ]
            * 3
        )
        await until("all are closed", lambda: server.open == 0)
        assert await client.post(server.url) == HttpAnswer(None, error="this HTTP client is closed")
        await client.close()
