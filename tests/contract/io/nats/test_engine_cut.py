"""A server that has lost its cluster: it answers, but with nothing that helps, and is left for another.

This takes seconds by nature: a nats-server takes 10 to 20 s to notice that its cluster has no leader, and meanwhile
answers as if it had one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.core.errors import HeadraceError
from headrace.core.event.nats_codec import NatsMessage, encoded
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from tests.support.nats.nats_cluster import NatsCluster
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

STREAM = {"name": "S", "subjects": ["a.b"], "num_replicas": 3}


@pytest.mark.parametrize("cut", ["killed", "frozen"])
@pytest.mark.asyncio(loop_factories=["uvloop"])
async def test_a_server_without_its_cluster_is_left_though_it_answers(tmp_path: Path, cut: str) -> None:
    cluster, well = NatsCluster(tmp_path / "cluster"), NatsServer(tmp_path / "well")
    left = cluster.servers[0]
    client = Client(NatsSettings(url=f"{left.url},{well.url}"))
    jetstream = JetStream(client, JetStreamApi(client))
    tries: set[asyncio.Task[None]] = set()
    stored: list[str] = []

    async def publish(number: int) -> None:
        event = NatsMessage("a.b", {"Nats-Msg-Id": str(number)}, b"x")
        with suppress(HeadraceError):
            stored.append((await jetstream.publish(encoded(event), 5)).stream)

    try:
        cluster.start()
        await client.ready(10)
        await JetStreamApi(client).call("STREAM.CREATE.S", STREAM, timeout=20)
        for server in cluster.servers[1:]:
            server.kill() if cut == "killed" else server.freeze()
        well.start()
        other = Client(NatsSettings(url=well.url))
        await JetStreamApi(other).call("STREAM.CREATE.S", {**STREAM, "num_replicas": 1})
        await other.close()

        async def is_stored() -> bool:
            tries.add(asyncio.create_task(publish(len(tries))))
            await asyncio.sleep(0.2)
            return bool(stored)

        await until("it is stored elsewhere", is_stored, 40)
    finally:
        for one in tries:
            one.cancel()
        await client.close()
        cluster.kill()
        well.kill()
