"""Finding the server: names, literals, several addresses, and a server as people run it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import pytest
import uvicorn

from headrace.core.http import HttpAnswer
from headrace.host.serving import config
from headrace.io.http.dial import STAGGER_SECONDS, Unreachable, dial
from headrace.io.http.socket_address import SocketAddress
from headrace.io.web import Receive, Scope, Send
from tests.support.http.full_queue import nobody_accepting
from tests.support.http.raw_server import ACCEPTED, answering, serving
from tests.support.loop_clock import exactly, loop_clock
from tests.support.nats.nats_server import free_port
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
    "uri",
    [
        "http:///secret",
        "ftp://127.0.0.1/secret?secret#secret",
        "http://127.0.0.1:secret/",
        "http://[::1/secret",
        "http://a..b/?key=secret",
        "http://a b/secret",
        "http://127.0.0.1/secret\n",
        "http://secret:secret@127.0.0.1/secret",
        "127.0.0.1:secret/secret",
    ],
)
async def test_an_address_that_is_none_is_an_error_that_shows_no_more_than_scheme_and_host(client, uri):
    answer = await client.post(uri)
    assert answer == HttpAnswer(None, error=answer.error)
    assert answer.error.startswith("uri ")
    assert "secret" not in answer.error


@pytest.mark.parametrize("host", ["127.0.0.1", "nobody.invalid", "[fe80::1%25secret-not]"])
async def test_a_failure_shows_nothing_of_path_and_query(client, host):
    answer = await client.post(f"http://{host}:{free_port()}/key/?token=key")
    assert answer == HttpAnswer(None, error=answer.error)
    assert "key" not in answer.error


def ipv4(host: str, port: int) -> SocketAddress:
    return SocketAddress(socket.AF_INET, (host, port))


async def test_an_address_that_refuses_is_followed_by_the_next():
    async with serving(answering(ACCEPTED), host="127.0.0.2") as server, loop_clock() as clock:
        with closing(await dial([ipv4("127.0.0.1", server.port), ipv4("127.0.0.2", server.port)])) as plug:
            assert plug.getpeername() == ("127.0.0.2", server.port)
        assert clock.seconds < STAGGER_SECONDS


async def test_beside_an_address_that_is_silent_the_next_is_tried():
    async with nobody_accepting() as silent, serving(answering(ACCEPTED)) as server:
        with closing(await exactly(STAGGER_SECONDS, dial([silent, ipv4("127.0.0.1", server.port)]))) as plug:
            assert plug.getpeername() == ("127.0.0.1", server.port)


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


EVENT = ((b"ce-specversion", b"1.0"), (b"ce-id", b"1"))


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
        await send({"type": "http.response.start", "status": 200, "headers": [*EVENT]})
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
            answer = await either.post(url, EVENT, body)
            assert (answer.status, answer.body, answer.header(b"ce-id")) == (200, body, b"1")
        await either.close()
