"""The engine and silence: a dead connection is noticed, a quiet one is kept.

These take seconds by nature, so they run beside one another, and only wait here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path

import pytest

from headrace.core.errors import Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import beside, until


async def freezes(directory: Path) -> float:
    """Seconds until a frozen server is noticed; the engine must be back once it thaws."""
    server = NatsServer(directory).start()
    engine = Client(NatsSettings(url=server.url))
    try:
        await engine.ready(5)
        lost: list[float] = []
        engine.on_disconnect.append(lambda: lost.append(asyncio.get_running_loop().time()))
        server.freeze()
        began = asyncio.get_running_loop().time()
        await until("the freeze is noticed", lambda: bool(lost), 15)
        server.thaw()
        await engine.ready(10)
        assert (await engine.request("nobody", timeout=5)).status == "503"
        return lost[0] - began
    finally:
        await engine.close()
        server.kill()


async def stays_quiet(directory: Path) -> int:
    """How often a connection on which nothing is said is lost in 8 seconds; the server pings every second."""
    server = NatsServer(directory, config='ping_interval: "1s"\nping_max: 1').start()
    engine = Client(NatsSettings(url=server.url))
    lost: list[bool] = []
    engine.on_disconnect.append(lambda: lost.append(True))
    try:
        await engine.ready(5)
        await asyncio.sleep(8)
        return len(lost)
    finally:
        await engine.close()
        server.kill()


async def never_speaks() -> int:
    """How often a server that accepts and says nothing is tried in 5 seconds."""
    accepted: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    engine = Client(NatsSettings(url=f"nats://127.0.0.1:{silent.sockets[0].getsockname()[1]}"))
    try:
        await engine.ready(5)
    except Unavailable:
        return len(accepted)
    finally:
        await engine.close()
        for writer in accepted:
            writer.close()
        silent.close()
    raise AssertionError("connected to a server that says nothing")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> tuple[Future[float], Future[int], Future[int]]:
    directory = tmp_path_factory.mktemp("silence")
    return beside(freezes(directory / "frozen")), beside(stays_quiet(directory / "quiet")), beside(never_speaks())


def test_a_frozen_server_is_noticed_within_8_seconds_but_not_at_the_first_pause(running):
    frozen, _, _ = running
    assert 3 < frozen.result() < 8


def test_a_quiet_connection_is_kept(running):
    _, quiet, _ = running
    assert quiet.result() == 0


def test_a_server_that_says_nothing_is_given_up_after_2_seconds(running):
    _, _, silent = running
    assert 2 <= silent.result() <= 3
