"""A client that had a connection gets another one, however servers have turned it away in between, asked or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.http.raw_server import Peer, Script, serving

INFO = b'INFO {"max_payload":1048576}\r\n'
# Three times longer than it takes on a machine with nothing else to do.
AGAIN_SECONDS = 30.0


def saying_no(*said: bytes, heard: bytes = b"", reset: bool = True) -> Script:
    """Says that, waits for some words of the client, and hangs up."""

    async def script(peer: Peer) -> None:
        await peer.say(*said)
        if heard:
            await peer.until(heard)
        if reset:
            peer.reset()

    return script


async def _refused(peer: Peer) -> None:
    await peer.say(INFO)
    await peer.until(b"PING\r\n")
    await peer.say(b"-ERR 'Authorization Violation'\r\n")
    peer.reset()


TURNS_AWAY = {
    "reset at once": saying_no(),
    "closed at once": saying_no(reset=False),
    "INFO and reset": saying_no(INFO),
    "INFO and closed": saying_no(INFO, reset=False),
    "reset after CONNECT": saying_no(INFO, heard=b"PING\r\n"),
    "closed after CONNECT": saying_no(INFO, heard=b"PING\r\n", reset=False),
    "refused and reset": _refused,
    "no INFO": saying_no(b"INFO []\r\n", reset=False),
    "no URL": saying_no(b'INFO {"connect_urls":["[::1"]}\r\n', reset=False),
    "no line": saying_no(b"x" * 1024 * 1024, reset=False),
    "no NATS": saying_no(b"HTTP/1.1 400 Bad Request\r\n\r\n", reset=False),
    "TLS and reset": saying_no(b'INFO {"tls_required":true}\r\n'),
    "TLS and garbage": saying_no(b'INFO {"tls_required":true}\r\n', b"what?\r\n"),
}


def taking(left: asyncio.Event, subscribed: asyncio.Event) -> Script:
    """A server that takes the client; it hangs up once `left` is set."""

    async def script(peer: Peer) -> None:
        await peer.say(INFO)
        await peer.until(b"PING\r\n")
        await peer.say(b"PONG\r\n")
        await peer.until(b"SUB orders ")
        subscribed.set()
        await left.wait()
        peer.reset()

    return script


@asynccontextmanager
async def subscribed(port: int) -> AsyncIterator[Client]:
    client = Client(NatsSettings.model_validate({"url": f"nats://127.0.0.1:{port}"}))
    try:
        await client.ready(AGAIN_SECONDS)
        await client.subscribe("orders", lambda _: None)
        yield client
    finally:
        await client.close()


async def test_it_can_be_closed_in_the_middle_of_a_handshake():
    left, first, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def silent(peer: Peer) -> None:
        await peer.say(b'INFO {"tls_required":true}\r\n')
        # What a TLS client says first.
        await peer.until(b"\x16\x03")
        begun.set()
        await peer.gone()

    async with (
        serving(taking(left, first), silent) as server,
        asyncio.timeout(AGAIN_SECONDS),
        subscribed(server.port),
    ):
        await first.wait()
        left.set()
        await begun.wait()


@pytest.mark.parametrize("turn_away", TURNS_AWAY.values(), ids=TURNS_AWAY)
async def test_a_subscription_comes_again_by_itself(turn_away):
    left, first, second = asyncio.Event(), asyncio.Event(), asyncio.Event()
    scripts = (taking(left, first), turn_away, turn_away, taking(asyncio.Event(), second))

    async with serving(*scripts) as server, subscribed(server.port) as client, asyncio.timeout(AGAIN_SECONDS):
        await first.wait()
        left.set()
        await second.wait()
        await client.ready(AGAIN_SECONDS)
