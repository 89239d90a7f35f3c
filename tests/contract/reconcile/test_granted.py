"""Requests of `reconcile` under the limits of a server, and of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.nats_server import NatsServer

STREAM, BILLING = "KN_SHOP__ORDERS", "KN_SUB_AAAA1"
SECOND = 1_000_000_000
READY = {"uid": "aaaa-1", "observedGeneration": 1, "ready": "True"}
ADOPTED = {"overrideName": "ORDERS"}


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncIterator[tuple[NatsServer, Client]]:
    server = NatsServer(tmp_path / "nats", limits='max_ack_pending: 500, duplicate_window: "1m"')
    server.start()
    connection = Client(NatsSettings(url=server.url))
    yield server, connection
    await connection.close()
    server.kill()


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


async def made(hook: Hook, key: str) -> Any:
    consumer = await hook.consumer(STREAM, BILLING)
    assert consumer is not None
    return consumer.get(key)


async def adopt(hook: Hook, **config: Any) -> None:
    body = {"name": "ORDERS", "subjects": ["legacy.>"], "storage": "file", **config}
    await hook.api.call("STREAM.CREATE.ORDERS", body)


# --- limits, and what is ours to choose ---


async def test_a_default_of_ours_gives_way_to_a_limit_of_the_server_and_says_so(
    limited: tuple[NatsServer, Client],
) -> None:
    hook = Hook(limited[1])

    answer = await hook.sync(channel(entry("aaaa-1")))

    assert condition(answer, "Ready")["status"] == "True"
    assert answer["status"]["subscribers"] == [READY]
    assert await made(hook, "max_ack_pending") == 500
    found = await hook.stream(STREAM)
    assert found is not None
    assert found["duplicate_window"] == 60 * SECOND
    told = condition(answer, "OurDefaultsHold")
    assert (told["status"], told["severity"], told["reason"]) == ("False", "Info", "ServerLimits")
    assert told["message"] == (
        "spec.stream.config.duplicateWindow is not given, and 60s holds in place of our default of 120s: "
        "duplicates window can not be larger then server limit of 1m0s; "
        "spec.consumerConfigTemplate.maxAckPending is not given, and 500 holds in place of our default of 10000: "
        "consumer max ack pending exceeds system limit of 500"
    )


async def test_what_was_lowered_stays_so_and_is_asked_for_again(limited: tuple[NatsServer, Client]) -> None:
    hook, parent = Hook(limited[1]), channel(entry("aaaa-1"))
    first = await hook.sync(parent)
    before = await hook.stream(STREAM), await hook.consumer(STREAM, BILLING)

    again = await hook.sync(parent)

    # One question for each default, which the server declines: its limit may be another by now.
    assert hook.changes == [f"STREAM.UPDATE.{STREAM}", f"CONSUMER.CREATE.{STREAM}.{BILLING}"]
    assert (await hook.stream(STREAM), await hook.consumer(STREAM, BILLING)) == before
    assert again["status"] == first["status"]


async def test_our_default_is_back_when_the_limit_is_gone(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats", limits="max_ack_pending: 500")
    server.start()
    parent = channel(entry("aaaa-1"))
    connection = Client(NatsSettings(url=server.url))
    await Hook(connection).sync(parent)
    await connection.close()
    server.stop()
    unlimited = NatsServer(tmp_path / "nats", port=server.port)
    unlimited.start()
    connection = Client(NatsSettings(url=server.url))
    try:
        hook = Hook(connection)
        answer = await hook.sync(parent)
        assert await made(hook, "max_ack_pending") == 10_000
        assert "OurDefaultsHold" not in {one["type"] for one in answer["status"]["conditions"]}
    finally:
        await connection.close()
        unlimited.kill()


async def test_what_the_author_asks_for_is_refused_in_the_servers_words(limited: tuple[NatsServer, Client]) -> None:
    hook = Hook(limited[1])

    answer = await hook.sync(channel(entry("aaaa-1"), consumerConfigTemplate={"maxAckPending": 600}))
    window = await hook.sync(channel(entry("bbbb-2"), name="other", stream=stream(duplicateWindow="90s")))

    [row] = answer["status"]["subscribers"]
    assert (row["ready"], row["message"]) == ("False", "consumer max ack pending exceeds system limit of 500")
    assert await hook.consumer(STREAM, BILLING) is None
    ready = condition(window, "StreamReady")
    assert (ready["reason"], "server limit of 1m0s" in ready["message"]) == ("StreamCreateRefused", True)


async def test_a_limit_of_an_adopted_stream_holds_for_our_default(hook: Hook) -> None:
    await adopt(hook, consumer_limits={"max_ack_pending": 50})

    answer = await hook.sync(channel(entry("aaaa-1"), stream=ADOPTED))

    assert answer["status"]["subscribers"] == [READY]
    consumer = await hook.consumer("ORDERS", BILLING)
    assert consumer is not None
    assert consumer["max_ack_pending"] == 50


# --- what a consumer inherits ---


async def test_a_setting_that_would_be_inherited_and_does_harm_is_refused_by_its_name(hook: Hook) -> None:
    await adopt(hook, consumer_limits={"inactive_threshold": 6 * SECOND})
    parent = channel(entry("aaaa-1"), stream=ADOPTED)

    answer = await hook.sync(parent)

    [row] = answer["status"]["subscribers"]
    assert (row["ready"], row["message"]) == (
        "False",
        "NATS makes every consumer with inactive_threshold 6s, with which one goes while its subscriber idles "
        "and is made anew, so that all comes again: take inactive_threshold out of the consumer_limits of stream "
        "ORDERS",
    )
    assert condition(answer, "ConsumersReady")["reason"] == "ConsumersRefused"
    assert answer["resyncAfterSeconds"] == 30.1
    assert await hook.durables("ORDERS") == []

    info = await hook.api.call("STREAM.INFO.ORDERS")
    await hook.api.call("STREAM.UPDATE.ORDERS", {**info["config"], "consumer_limits": {}})
    assert (await hook.sync(parent))["status"]["subscribers"] == [READY]


async def test_a_consumer_that_was_there_before_goes_on_without_a_change_that_would_make_it_inherit(hook: Hook) -> None:
    await adopt(hook)
    await hook.sync(channel(entry("aaaa-1"), stream=ADOPTED))
    info = await hook.api.call("STREAM.INFO.ORDERS")
    limits = {"consumer_limits": {"inactive_threshold": 6 * SECOND}}
    await hook.api.call("STREAM.UPDATE.ORDERS", {**info["config"], **limits})

    same = await hook.sync(channel(entry("aaaa-1"), stream=ADOPTED))
    edited = await hook.sync(channel(entry("aaaa-1", delivery={"retry": 5}), stream=ADOPTED))

    assert same["status"]["subscribers"] == [READY]
    [row] = edited["status"]["subscribers"]
    assert (row["ready"], "inactive_threshold" in row["message"]) == ("False", True)
    consumer = await hook.consumer("ORDERS", BILLING)
    assert consumer is not None
    assert not consumer.get("inactive_threshold")


async def test_an_inactive_threshold_that_was_put_on_our_own_stream_goes(hook: Hook) -> None:
    limits = {"consumerLimits": {"maxAckPending": 50}}
    parent = channel(entry("aaaa-1"), stream=stream(**limits), consumerConfigTemplate={"maxAckPending": 50})
    await hook.sync(parent)
    info = await hook.api.call(f"STREAM.INFO.{STREAM}")
    by_hand = {"consumer_limits": {"max_ack_pending": 50, "inactive_threshold": 6 * SECOND}}
    await hook.api.call(f"STREAM.UPDATE.{STREAM}", {**info["config"], **by_hand})

    answer = await hook.sync(parent)

    found = await hook.stream(STREAM)
    assert found is not None
    assert found["consumer_limits"] == {"max_ack_pending": 50}
    assert answer["status"]["subscribers"] == [READY]
