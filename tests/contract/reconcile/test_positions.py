"""Three servers lose power together: a consumer that remembers more than its stream is put back, and misses nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.core.delivery import second_look
from headrace.core.errors import HeadraceError
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Arrival
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.nats_cluster import NatsCluster
from tests.support.nats.nats_server import NatsServer

STREAM, SUBJECT, DURABLE = "KN_SHOP__ORDERS", "shop.orders._knative", "KN_SUB_AAAA1"
# The asynchronous parts of a settled position are on the disk.
WRITTEN_SECONDS = 0.5


async def insist(what: Any, *arguments: Any, **named: Any) -> Any:
    """Ask until a cluster that may still elect answers."""
    async with asyncio.timeout(60):
        while True:
            with suppress(HeadraceError):
                return await what(*arguments, **named)
            await asyncio.sleep(0.2)


async def publish(client: Client, *ids: str) -> None:
    for each in ids:

        async def stored(identity: str = each) -> None:
            headers = {"Nats-Msg-Id": identity, "ce-id": identity}
            answer = json.loads((await client.request(SUBJECT, b"{}", headers=headers, timeout=5)).data)
            if "error" in answer:
                raise HeadraceError(str(answer))

        await insist(stored)


async def taken(client: Client, count: int) -> list[str]:
    """Pull so many events, and acknowledge them."""
    inbox, found = client.new_inbox(), list[Arrival]()
    subscription = await client.subscribe(inbox, lambda one: found.append(one) if one.reply else None)
    async with asyncio.timeout(60):
        while len(found) < count:
            body = {"batch": count - len(found), "expires": 1_000_000_000}
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{DURABLE}"
            with suppress(HeadraceError):
                await client.ready(5)
                await client.publish(subject, json.dumps(body).encode(), reply=inbox)
            await asyncio.sleep(1.1)
    for one in found:
        await insist(client.request, one.reply, b"+ACK", timeout=5)
    await subscription.close()
    return [one.headers["ce-id"] for one in found]


def parts(server: NatsServer) -> list[Path]:
    """Where a server has the stream's messages, and what streams have agreed upon with the other servers."""
    agreed = (server.data / "jetstream" / "$SYS" / "_js_").glob("S-*")
    return [server.data / "jetstream" / "$G" / "streams" / STREAM / "msgs", *agreed]


async def test_a_consumer_that_remembers_more_than_its_stream_is_put_back_at_the_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_look, "SURE_AFTER", timedelta(seconds=2))
    cluster = NatsCluster(tmp_path / "nats")
    await asyncio.to_thread(cluster.start)
    client = Client(NatsSettings(url=cluster.url))
    hook, wanted = Hook(client), channel(entry(), stream=stream(replicas=3))
    try:
        await insist(hook.sync, wanted)
        await publish(client, "1", "2", "3")
        assert await taken(client, 3) == ["1", "2", "3"]
        await asyncio.sleep(WRITTEN_SECONDS)
        await asyncio.to_thread(cluster.kill)
        synced = {}
        for number, server in enumerate(cluster.servers):
            for part in parts(server):
                synced[part] = tmp_path / "synced" / str(number) / part.name
                shutil.copytree(part, synced[part])
        await asyncio.to_thread(cluster.start)
        await publish(client, *(f"lost {n}" for n in range(9)))
        await taken(client, 9)
        await asyncio.sleep(WRITTEN_SECONDS)

        await asyncio.to_thread(cluster.kill)
        for part, kept in synced.items():
            shutil.rmtree(part)
            shutil.copytree(kept, part)
        await asyncio.to_thread(cluster.start)
        await publish(client, "after")
        told = condition(await insist(hook.sync, wanted), "PositionsKept")
        assert (told["reason"], told["message"][:32]) == ("PositionAhead", "the next 8 events will not be ha")
        assert "CONSUMER.RESET" not in str(hook.changes)
        await asyncio.sleep(2)
        found = await insist(hook.sync, wanted)

        assert "PositionsKept" not in {one["type"] for one in found["status"]["conditions"]}
        # All four were stored within the last minutes; only "after" had passed the consumer by.
        assert await taken(client, 4) == ["1", "2", "3", "after"]
        assert condition(await insist(hook.sync, wanted), "Ready")["status"] == "True"
    finally:
        await client.close()
        await asyncio.to_thread(cluster.kill)
