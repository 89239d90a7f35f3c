"""One TLS connection before its handshake is over: what it may take, and for how long."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

import pytest
import trustme

from headrace.server import tls
from headrace.server.crowd import Crowd, Ending
from headrace.server.tls import TlsConnection
from tests.support.http.fronted import Transport
from tests.support.waiting import until

# A hello that announces 16 MiB: OpenSSL would wait for 128 KiB of it.
HELLO = b"\x16\x03\x01\x40\x00\x01\x00\x40\x00\x03\x03"


@pytest.fixture
def crowd() -> Crowd:
    return Crowd(2)


@pytest.fixture
async def arrive(crowd: Crowd) -> Callable[[], tuple[TlsConnection, Transport]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    def arrived() -> tuple[TlsConnection, Transport]:
        loop, transport = asyncio.get_running_loop(), Transport()
        made = TlsConnection(context, asyncio.Protocol, crowd, set(), loop)
        made.connection_made(transport)
        return made, transport

    return arrived


async def test_a_handshake_has_its_time_and_its_size(crowd, arrive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.05)
    _, silent = arrive()
    await until("it was waited for", lambda: silent.aborted, 5)
    assert crowd.closed[Ending.SILENT] == 1
    monkeypatch.undo()
    connection, endless = arrive()
    connection.data_received(HELLO)
    for _ in range(15):
        await asyncio.sleep(0)
        assert not endless.closed
        connection.data_received(bytes(1024))
    connection.data_received(bytes(1024))
    await until("it has said enough", lambda: endless.aborted, 5)


async def test_of_handshakes_the_oldest_goes_for_one_more(crowd, arrive) -> None:
    (_, first), (_, second), (_, third) = arrive(), arrive(), arrive()
    assert (first.aborted, second.aborted, third.aborted) == (True, False, False)
    assert len(crowd) == 2


async def test_bytes_of_a_handshake_wait_for_their_turn_and_no_more_are_read_until_then(arrive) -> None:
    connection, transport = arrive()
    connection.data_received(HELLO)
    assert not transport.reading
    await asyncio.sleep(0)
    assert transport.reading
