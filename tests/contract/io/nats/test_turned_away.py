"""Servers that turn us away and break the connection, each in its own way."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.http.raw_server import Peer, RawServer, serving
from tests.support.kube.mounts import Mount
from tests.support.nats.refusals import REFUSED_SECONDS, refused
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])
CONNECT_SECONDS = 20.0


def client_of(server: RawServer, **settings: Any) -> Client:
    given = {"url": f"nats://127.0.0.1:{server.port}", **settings}
    return Client(NatsSettings.model_validate(given))


async def test_a_refusal_is_remembered_when_the_connection_is_reset_behind_it():
    async def refusing(peer: Peer) -> None:
        await peer.say(b'INFO {"max_payload":1048576}\r\n')
        await peer.until(b"PING\r\n")
        await peer.say(b"-ERR 'Authorization Violation'\r\n")
        peer.reset()

    async with serving(refusing) as server:
        client = client_of(server)
        try:
            await until("it knows that it is refused", lambda: refused(client), CONNECT_SECONDS)
            seen = server.connections
            await until("it has tried again", lambda: server.connections > seen + 1, CONNECT_SECONDS)
            assert await refused(client)
        finally:
            await client.close()


async def _refused_and_reset(peer: Peer) -> None:
    await peer.say(b"-ERR 'Authorization Violation'\r\n")
    peer.reset()


async def _refused_and_closed(peer: Peer) -> None:
    await peer.say(b"-ERR 'Authorization Violation'\r\n")
    peer.close()


async def _reset(peer: Peer) -> None:
    peer.reset()


async def _garbled(peer: Peer) -> None:
    await peer.say(b"\0\0 what is this\r\n")
    peer.reset()


@pytest.mark.parametrize("refuse", [_refused_and_reset, _refused_and_closed, _reset, _garbled])
async def test_a_mended_secret_is_taken_however_the_wrong_one_was_turned_away(refuse, tmp_path):
    async def taking_the_right_one(peer: Peer) -> None:
        await peer.say(b'INFO {"max_payload":1048576}\r\n')
        if b'"right"' not in await peer.until(b"PING\r\n"):
            return await refuse(peer)
        await peer.say(b"PONG\r\n")
        return await peer.gone()

    mount = Mount(tmp_path / "namespace", username="me", password="wrong")
    async with serving(taking_the_right_one) as server:
        client = client_of(server, credentials_dir=str(tmp_path))
        try:
            with pytest.raises(Unavailable):
                await client.ready(REFUSED_SECONDS)
            mount.swap(username="me", password="right")
            await client.ready(CONNECT_SECONDS)
        finally:
            await client.close()
