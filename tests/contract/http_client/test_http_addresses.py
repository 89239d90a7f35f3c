"""Finding the server: names, literals, several addresses, and a server as people run it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
import uvicorn

from headrace.core.http import HttpAnswer
from headrace.host.serving import config
from headrace.io.http.dial import STAGGER_SECONDS, Unreachable, dial
from headrace.io.http.socket_address import SocketAddress
from headrace.io.web import Receive, Scope, Send
from tests.support.full_queue import nobody_accepting
from tests.support.nats_server import free_port
from tests.support.raw_server import ACCEPTED, answering, serving
from tests.support.waiting import until


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


LITERALS = ["127.0.0.1", "127.0.0.2", *(["::1"] if has_ipv6() else [])]


@pytest.mark.parametrize("host", LITERALS)
async def test_a_literal_is_connected_to(either, host):
    async with serving(answering(ACCEPTED), host=host) as server:
        assert (await either.post(server.url)).status == 202
        named = f"[{host}]" if ":" in host else host
        assert f"Host: {named}:{server.port}".encode() in server.requests[0].lines


async def test_a_name_is_looked_up(either):
    async with serving(answering(ACCEPTED)) as server:
        assert (await either.post(f"http://localhost:{server.port}/a")).status == 202
        assert b"Host: localhost:%d" % server.port in server.requests[0].lines


@pytest.mark.parametrize(
    "uri", ["http:///a", "ftp://127.0.0.1/", "http://127.0.0.1:x/", "http://[::1/", "http://a..b/"]
)
async def test_an_address_that_is_none_is_an_error_that_says_so(client, uri):
    answer = await client.post(uri)
    assert answer == HttpAnswer(None, error=answer.error)
    assert answer.error.startswith("uri ")


def ipv4(host: str, port: int) -> SocketAddress:
    return SocketAddress(socket.AF_INET, (host, port))


async def test_an_address_that_refuses_is_followed_by_the_next():
    async with serving(answering(ACCEPTED), host="127.0.0.2") as server:
        began = time.monotonic()
        with closing(await dial([ipv4("127.0.0.1", server.port), ipv4("127.0.0.2", server.port)])) as plug:
            assert plug.getpeername() == ("127.0.0.2", server.port)
        assert time.monotonic() - began < STAGGER_SECONDS


async def test_beside_an_address_that_is_silent_the_next_is_tried():
    async with nobody_accepting() as silent, serving(answering(ACCEPTED)) as server:
        began = time.monotonic()
        with closing(await dial([silent, ipv4("127.0.0.1", server.port)])) as plug:
            assert plug.getpeername() == ("127.0.0.1", server.port)
        assert STAGGER_SECONDS * 0.9 < time.monotonic() - began < STAGGER_SECONDS * 2


async def test_where_every_address_fails_each_of_them_is_named():
    port = free_port()
    with pytest.raises(Unreachable) as failed:
        await dial([ipv4("127.0.0.1", port), ipv4("127.0.0.2", port)])
    assert str(failed.value) == "127.0.0.1: Connection refused; 127.0.0.2: Connection refused"


async def test_a_cancelled_attempt_leaves_nothing_behind():
    async with nobody_accepting() as silent, nobody_accepting() as silent_too:
        dialling = asyncio.ensure_future(dial([silent, silent_too]))
        await asyncio.sleep(STAGGER_SECONDS + 0.05)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        await until("nobody tries any more", lambda: asyncio.all_tasks() == {asyncio.current_task()})


@asynccontextmanager
async def echo() -> AsyncIterator[str]:
    """A subscriber on uvicorn, with the settings of our own functions: it sends back what it gets."""

    async def app(_: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            part = await receive()
            body += part["body"]
            if not part.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": [(b"ce-id", b"1")]})
        await send({"type": "http.response.body", "body": body})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(config(app))
        serving = asyncio.ensure_future(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            await serving


async def test_a_subscriber_on_uvicorn_is_served(either):
    async with echo() as url:
        for body in (b"", b"1", b"x" * 100_000):
            answer = await either.post(url, ((b"ce-id", b"1"),), body)
            assert (answer.status, answer.body, answer.header(b"ce-id")) == (200, body, b"1")
        await either.close()
