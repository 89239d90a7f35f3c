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
