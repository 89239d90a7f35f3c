"""The engine and silence: a dead connection is noticed, a quiet one is kept.

These take seconds by nature, so they run beside one another, and only wait here.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.nats_wire import Arrival
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Broken
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


async def is_cut_off(directory: Path, *, alone: bool, talks: bool) -> tuple[float, int]:
    """Seconds until a question that this server's peers don't hear is answered by another, and connections lost.

    Args:
        alone: there is no other server.
        talks: something else that is asked is answered all the time.
    """
    servers = [NatsServer(directory / name).start() for name in ("cut", "well")]
    engine = Client(NatsSettings(url=servers[0].url if alone else ",".join(server.url for server in servers)))
    others = [Client(NatsSettings(url=server.url)) for server in servers]
    moved: list[bool] = []

    def answers(one: Arrival) -> None:
        others[1].answer(one.reply, b"it is me")

    try:
        servers[1].freeze()
        await engine.ready(10)
        engine.on_disconnect.append(lambda: moved.append(True))
        servers[1].thaw()
        # Who is asked takes the question and says nothing, as a server does that waits for a stream's leader elsewhere.
        await others[0].subscribe("who", lambda _: None)
        await others[1].subscribe("who", answers)
        for other in others:
            await other.ready(10)
            await other.flush(10)
        began = asyncio.get_running_loop().time()
        while (seconds := asyncio.get_running_loop().time() - began) < 9:
            if talks:
                # That nobody listens would be no such answer: a server that is cut from its cluster says so, too.
                assert b"memory" in (await engine.request("$JS.API.INFO", timeout=1)).data
            with suppress(Unavailable, Broken):
                await engine.request("who", timeout=0.5)
                break
        return seconds, len(moved)
    finally:
        for client in (engine, *others):
            await client.close()
        for server in servers:
            server.kill()


Running = dict[str, Future[Any]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Running:
    directory = tmp_path_factory.mktemp("silence")
    return {
        "frozen": beside(freezes(directory / "frozen")),
        "quiet": beside(stays_quiet(directory / "quiet")),
        "silent": beside(never_speaks()),
        "cut off": beside(is_cut_off(directory / "cut", alone=False, talks=False)),
        "alone": beside(is_cut_off(directory / "alone", alone=True, talks=False)),
        "partly": beside(is_cut_off(directory / "partly", alone=False, talks=True)),
    }


def test_a_frozen_server_is_noticed_within_8_seconds_but_not_at_the_first_pause(running):
    assert 3 < running["frozen"].result() < 8


def test_a_quiet_connection_is_kept(running):
    assert running["quiet"].result() == 0


def test_a_server_that_says_nothing_is_given_up_after_2_seconds(running):
    assert 2 <= running["silent"].result() <= 3


def test_a_server_that_lives_and_answers_no_question_is_left_for_another(running):
    seconds, moved = running["cut off"].result()
    assert moved == 1
    assert seconds < 9


@pytest.mark.parametrize("why", ["alone", "partly"])
def test_it_is_kept_where_there_is_no_other_or_as_long_as_it_answers_something(why, running):
    _, moved = running[why].result()
    assert moved == 0
