"""What one namespace may reserve of the account's storage, tried by channels of it on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.core.installation import tenants
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.channels import channel, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.nats_server import NatsServer

ACCOUNT = 100_000_000
CONFIG = (
    f"accounts {{ A {{ jetstream: {{ max_file: {ACCOUNT} }}, users: [{{ user: a, password: a }}] }} }}\nno_auth_user: a"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    started = NatsServer(tmp_path / "nats", config=CONFIG).start()
    yield started
    started.kill()


@pytest.fixture
async def hook(server: NatsServer) -> AsyncIterator[Hook]:
    client = Client(NatsSettings(url=server.url), name="test")
    yield Hook(client)
    await client.close()


def bounded(size: int) -> Around:
    entry = {"namespaces": ["*"], "maxBytes": {"file": size}}
    return Around(tenants=tenants.parse({tenants.KEY: json.dumps([entry])}))


async def test_a_namespace_reserves_no_more_than_its_bound_and_another_one_finds_room(hook: Hook) -> None:
    greedy = channel(name="all", namespace="evil", stream=stream(maxBytes=90_000_000))
    shop = channel(stream=stream(maxBytes=40_000_000))

    hook.around = bounded(50_000_000)
    refused = condition(await hook.sync(greedy), "StreamReady")
    assert (refused["status"], refused["reason"]) == ("False", "StorageBeyondBound")
    assert await hook.stream("KN_EVIL__ALL") is None
    assert condition(await hook.sync(shop), "Ready")["status"] == "True"

    # As it was without a bound.
    await hook.finalize(shop)
    hook.around = None
    assert condition(await hook.sync(greedy), "Ready")["status"] == "True"
    assert condition(await hook.sync(shop), "Ready")["reason"] == "StreamCreateRefused"


async def test_of_many_that_are_made_at_once_as_many_fit_as_may(hook: Hook) -> None:
    hook.around = bounded(50_000_000)
    many = [channel(name=f"c{each}", uid=f"uid-{each}", stream=stream(maxBytes=10_000_000)) for each in range(8)]

    answers = await asyncio.gather(*(hook.sync(one) for one in many))

    assert sum(condition(one, "Ready")["status"] == "True" for one in answers) == 5


async def test_a_channel_from_before_the_bound_is_kept_and_told_and_gets_no_more(hook: Hook) -> None:
    await hook.sync(channel(stream=stream(maxBytes=60_000_000)))
    hook.around = bounded(50_000_000)

    kept = await hook.sync(channel(stream=stream(maxBytes=60_000_000)))
    assert condition(kept, "Ready")["status"] == "True"
    assert condition(kept, "WithinBounds")["message"].startswith("spec.stream.config.maxBytes is 60000000, with which")

    more = await hook.sync(channel(stream=stream(maxBytes=70_000_000, maxMsgs=9)))
    assert condition(more, "Ready")["reason"] == "StorageBeyondBound"
    found = await hook.stream("KN_SHOP__ORDERS")
    assert found is not None
    assert (found["max_bytes"], found["max_msgs"]) == (60_000_000, 9)

    less = await hook.sync(channel(stream=stream(maxBytes=50_000_000)))
    assert condition(less, "Ready")["status"] == "True"
    assert "WithinBounds" not in [one["type"] for one in less["status"]["conditions"]]


async def test_a_channel_that_closes_a_ring_and_republishes_nothing_is_made_within_the_bound(hook: Hook) -> None:
    hook.around = bounded(50_000_000)
    back = stream(sources=[{"name": "KN_SHOP__A"}], republish={"source": "*.*.*", "destination": "shop.in.a"})
    await hook.sync(channel(name="b", uid="b", stream=back))

    made = await hook.sync(channel(name="a", stream=stream(additionalSubjects=["shop.in.a"], maxBytes=1_000_000)))

    assert condition(made, "StreamReady")["status"] == "True"


async def test_many_small_channels_reserve_no_more_than_the_bound_by_what_lies_aside(tmp_path: Path) -> None:
    demands = CONFIG.replace("jetstream: {", "jetstream: { max_bytes_required: true,")
    server = NatsServer(tmp_path / "nats", config=demands).start()
    try:
        client = Client(NatsSettings(url=server.url), name="test")
        hook = Hook(client)
        hook.around = bounded(7_000_000)
        for number in range(8):
            await hook.sync(channel(name=f"c{number}", uid=f"u{number}", stream=stream(maxBytes=1000)))

        streams = [one["config"]["max_bytes"] async for one in hook.api.streams()]
        assert len(streams) % 2 == 0
        # Each has 2 MiB aside; the one that reaches the bound is the last.
        assert (7_000_000 < sum(streams) < 7_000_000 + 2.1 * 2**20, len(streams)) == (True, 8)
        await client.close()
    finally:
        server.kill()
