"""An account that demands a bound of every stream: those that we make beside the author's take theirs from his."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.nats_server import NatsServer

STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"
LIMITS = "max_file: 1GB, max_mem: 0, max_bytes_required: true"
CONFIG = f"accounts {{ A {{ jetstream: {{ {LIMITS} }}, users: [{{ user: a, password: a }}] }} }}\nno_auth_user: a"


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


async def max_bytes(hook: Hook, name: str) -> int:
    config = await hook.stream(name)
    assert config is not None
    return int(config["max_bytes"])


async def test_the_aside_stream_takes_its_bound_from_the_authors_and_follows_it(hook: Hook) -> None:
    small, large = (channel(entry("aaaa-1"), stream=stream(maxBytes=size)) for size in (5_000_000, 40_000_000))

    answer = await hook.sync(small)
    assert condition(answer, "Ready")["status"] == "True"
    assert (await max_bytes(hook, STREAM), await max_bytes(hook, ASIDE)) == (5_000_000, 2_097_152)
    assert await hook.durables(STREAM) == ["KN_SUB_AAAA1"]

    await hook.sync(small)
    assert hook.changes == []
    assert condition(await hook.sync(large), "Ready")["status"] == "True"
    assert (await max_bytes(hook, STREAM), await max_bytes(hook, ASIDE)) == (40_000_000, 10_000_000)


async def test_without_a_bound_the_message_names_the_field_that_is_to_be_set(hook: Hook) -> None:
    answer = await hook.sync(channel(entry("aaaa-1")))

    ready = condition(answer, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "StreamCreateRefused")
    assert ready["message"].endswith("config to have max bytes set: set spec.stream.config.maxBytes")


async def test_beside_an_adopted_stream_the_bound_is_a_share_of_that_one(hook: Hook) -> None:
    theirs = {"name": "THEIRS", "subjects": ["theirs.>"], "storage": "file", "max_bytes": 40_000_000}
    await hook.api.call("STREAM.CREATE.THEIRS", theirs)
    parent = channel(entry("aaaa-1"), stream={"overrideName": "THEIRS"})

    assert condition(await hook.sync(parent), "Ready")["status"] == "True"

    assert await max_bytes(hook, "THEIRS_aside") == 10_000_000
