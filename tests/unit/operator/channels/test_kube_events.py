"""Events that wait when the operator ends: they are written as far as a moment reaches, and no further."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from headrace.core.errors import Unavailable
from headrace_operator.channels.kube_events import EventWriter
from headrace_operator.kube.api import KubeApi
from tests.support.functions.channels import channel
from tests.support.waiting import until


class ApiServer:
    """Takes Events, or does not: `silent` says nothing for ever, `away` refuses the connection."""

    def __init__(self, *, silent: bool = False, away: bool = False) -> None:
        self.asked = 0
        self.notes: list[str] = []
        self._silent = silent
        self._away = away

    async def create(self, _path: str, body: Mapping[str, Any]) -> None:
        self.asked += 1
        self.notes.append(body["note"])
        if self._silent:
            await asyncio.Event().wait()
        if self._away:
            raise Unavailable("connection refused")


def with_words(server: ApiServer, count: int) -> EventWriter:
    announcer = EventWriter(cast("KubeApi", server), "operator-0")
    parent = channel()
    parent["metadata"]["resourceVersion"] = "7"
    for number in range(count):
        announcer(parent, "Said", f"word {number}")
    return announcer


async def test_a_silent_api_server_holds_up_the_end_for_a_moment_only() -> None:
    server = ApiServer(silent=True)
    announcer = with_words(server, 100)
    running = asyncio.create_task(announcer.run())
    await until("the first one is on its way", lambda: server.asked == 1)
    running.cancel()
    async with asyncio.timeout(30):
        await announcer.flush(0.1)
    assert announcer.waiting == 99


async def test_an_api_server_that_is_away_is_not_asked_for_each_of_them() -> None:
    server = ApiServer(away=True)
    announcer = with_words(server, 100)
    async with asyncio.timeout(30):
        await announcer.flush()
    assert server.asked == 8
    assert announcer.waiting == 92


async def test_all_that_waits_is_written() -> None:
    server = ApiServer()
    announcer = with_words(server, 100)
    await announcer.flush()
    assert (server.asked, announcer.waiting) == (100, 0)


async def test_an_event_holds_nothing_that_a_terminal_obeys() -> None:
    server = ApiServer()
    writer = EventWriter(cast("KubeApi", server), "operator-0")
    writer({**channel(), "metadata": {**channel()["metadata"], "resourceVersion": "7"}}, "Said", "\x9b2J\u202e!")

    await writer.flush()

    assert server.notes == ["\\x9b2J\\u202e!"]
