"""A failed POST is forgotten at once: a subscriber that hangs makes every event fail, and events are large."""

from __future__ import annotations

import gc
import sys

import pytest

from tests.support.http.http_clients import Client
from tests.support.http.raw_server import Peer, serving
from tests.support.waiting import until


async def hang(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def hang_up(peer: Peer) -> None:
    await peer.request()
    await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")


@pytest.mark.parametrize("script", [hang, hang_up])
async def test_a_failed_post_keeps_nothing_of_its_event(client: Client, script) -> None:
    body = bytes(100_000)
    async with serving(script) as server:
        gc.disable()
        try:
            before = sys.getrefcount(body)
            answer = await client.post(server.url, body=body, seconds=0.2)
            await until("nothing holds the body", lambda: sys.getrefcount(body) <= before)
        finally:
            gc.enable()

    assert answer.status is None
