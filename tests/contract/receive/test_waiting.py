"""Events that wait in `receive` while NATS does not answer are bounded in bytes, however small: beyond that 503."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Reply, send
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats

MIB = 1024 * 1024
# Each is counted with 8 KiB beside its own bytes.
ROOM = MIB // (8 * 1024)


@pytest.fixture(params=["gone", "silent"])
async def unanswered(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a channel whose NATS has just died, or does not say anything any more."""
    server = NatsServer(tmp_path / "nats").start()
    with Function(
        "receive", server.url, tmp_path, RECEIVE_MAX_WAITING_BYTES=str(MIB), RECEIVE_PUBLISH_TIMEOUT="60s"
    ) as function:
        async with Nats(server.url) as nats:
            orders = await nats.make_channel()
        assert (await send(function.url + orders.path, b"", BINARY)).status == 202
        if request.param == "gone":
            server.kill()
        else:
            server.freeze()
        yield function.url + orders.path
        function.kill()
    server.kill()


async def test_events_without_a_byte_of_data_are_held_only_so_many(unanswered: str) -> None:
    sent = [asyncio.create_task(send(unanswered, b"", {**BINARY, "ce-id": str(at)})) for at in range(ROOM + 20)]
    refused: list[Reply] = []
    for answer in asyncio.as_completed(sent):
        refused.append(await answer)
        if len(refused) == 20:
            break
    assert {(reply.status, reply.headers["Retry-After"]) for reply in refused} == {(503, "1")}
    assert "too many events are on their way" in refused[0].detail
    for task in sent:
        task.cancel()
    await asyncio.gather(*sent, return_exceptions=True)
