"""The functions write no file, so that the image can have a read-only root file system, wherever HOME and TMPDIR are.

The operator has a test of its own in tests/control_plane/kube/test_installed_operator.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.functions.channels import channel
from tests.support.functions.functions import TOKEN, Function
from tests.support.functions.read_only import refusing_writes, written
from tests.support.http.sending import BINARY, send
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Channel
from tests.support.programs.scraping import scrape
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]


class ReadOnly(Function):
    """A function that may change no file; it tells of itself on `told`."""

    program = ("-c", refusing_writes("headrace.host"))

    def __init__(self, target: str, server: NatsServer, directory: Path) -> None:
        self.told = free_port()
        nowhere = str(directory / "not-there")
        # As in the image: there is byte code already.
        settings = {"HOME": nowhere, "TMPDIR": nowhere, "PYTHONDONTWRITEBYTECODE": "1"}
        super().__init__(target, server.url, directory, METRICS_PORT=str(self.told), **settings)


@pytest.fixture(params=["receive", "forward", "reconcile"])
def function(request: pytest.FixtureRequest, shared_server: NatsServer, tmp_path: Path) -> Iterator[ReadOnly]:
    with ReadOnly(request.param, shared_server, tmp_path) as started:
        yield started


async def test_a_function_serves_and_writes_nothing(function: ReadOnly, orders: Channel) -> None:
    shown = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    match function.target:
        case "receive":
            reply = await send(function.url + orders.path, b"{}", BINARY)
            assert reply.status == 202
        case "reconcile":
            reply = await send(f"{function.url}/customize", json.dumps({"parent": channel()}).encode(), shown)
            assert reply.status == 200, reply
        case _:
            reply = await send(function.url, b'{"stream": "NOBODYS", "consumer": "none"}', shown)
            assert reply.status != 401

    async def tells() -> bool:
        return (await scrape(function.told)).has("headrace_requests_total")

    await until("it tells of what it was asked", tells)
    function.terminate()
    assert function.wait() == 0
    assert written(function.log) == []
