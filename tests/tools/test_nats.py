"""The `nats` commands that our texts give to people, run on streams and consumers as they are made here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.programs import tool_binaries
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, Channel, Nats

Tool = Callable[..., str]
ORDERS = Channel("shop", "orders")
BILLING = {"v": 1, "uid": "1", "namespace": "shop", "name": "billing", "subscriber": {"uri": "http://127.0.0.1:9/"}}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    found = NatsServer(tmp_path / "nats").start()
    yield found
    found.kill()


@pytest.fixture
def tool(tmp_path: Path, server: NatsServer) -> Tool:
    program = tool_binaries.found(tool_binaries.NATS)["nats"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "NATS_URL": server.url}

    def run(*words: str) -> str:
        done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


async def test_the_acknowledged_floor_is_where_the_migration_page_says(tool: Tool, server: NatsServer) -> None:
    async with Nats(server.url) as nats:
        await nats.make_channel(ORDERS)
        durable = await nats.make_consumer(ORDERS, {METADATA_KEY: json.dumps(BILLING)})
        stream = nats.client.jetstream()
        for _ in range(3):
            await stream.publish(ORDERS.subject, b"{}")
        pull = await stream.pull_subscribe_bind(durable, ORDERS.stream)
        for message in await pull.fetch(2, timeout=10):
            await message.ack_sync()
    found = json.loads(tool("consumer", "info", ORDERS.stream, durable, "--json"))
    assert found["ack_floor"]["stream_seq"] == 2


async def test_a_consumer_is_paused_and_resumed_as_the_crds_message_says(tool: Tool, server: NatsServer) -> None:
    async with Nats(server.url) as nats:
        await nats.make_channel(ORDERS)
        durable = await nats.make_consumer(ORDERS, {METADATA_KEY: json.dumps(BILLING)})
        tool("consumer", "pause", ORDERS.stream, durable, "1h", "--force")
        told = await nats.call(f"CONSUMER.INFO.{ORDERS.stream}.{durable}")
        assert told["paused"] is True
        tool("consumer", "resume", ORDERS.stream, durable, "--force")
        assert not (await nats.call(f"CONSUMER.INFO.{ORDERS.stream}.{durable}")).get("paused")
