"""Whose streams `reconcile` touches on a real server, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition

STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"
BILLING = "KN_SUB_AAAA1"


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


async def make_stream(api: JetStreamApi, name: str, *subjects: str, **config: Any) -> None:
    await api.call(f"STREAM.CREATE.{name}", {"name": name, "subjects": list(subjects), "storage": "file", **config})


# --- the author names the stream ---


async def test_an_adopted_stream_gets_our_subject_and_is_otherwise_left_alone(hook: Hook) -> None:
    await make_stream(hook.api, "ORDERS", "legacy.orders", max_msgs=77)
    before = await hook.stream("ORDERS")
    parent = channel(entry(), stream={"overrideName": "ORDERS", "config": {"maxMsgs": 5}})

    answer = await hook.sync(parent)

    assert before is not None
    assert await hook.stream("ORDERS") == {**before, "subjects": ["legacy.orders", "shop.orders._knative"]}
    assert condition(answer, "Ready")["status"] == "True"

    await hook.sync(parent)
    assert hook.changes == []


async def test_an_adopted_stream_is_after_finalize_as_it_was_before(hook: Hook) -> None:
    await make_stream(hook.api, "ORDERS", "legacy.orders", metadata={"team": "a"})
    await hook.api.call("CONSUMER.CREATE.ORDERS.theirs", durable("ORDERS", "theirs"))
    before = await hook.stream("ORDERS")
    parent = channel(entry(), stream={"overrideName": "ORDERS"})
    await hook.sync(parent)

    answer = await hook.finalize(parent)

    assert answer["finalized"] is True
    assert await hook.stream("ORDERS") == before
    assert await hook.durables("ORDERS") == ["theirs"]
    assert await hook.stream("ORDERS_aside") is None


async def test_a_subject_that_the_adopted_stream_had_before_us_stays(hook: Hook) -> None:
    await make_stream(hook.api, "ORDERS", "legacy.orders", "shop.*._knative")
    before = await hook.stream("ORDERS")
    parent = channel(entry(), stream={"overrideName": "ORDERS"})

    await hook.sync(parent)
    assert await hook.stream("ORDERS") == before
    await hook.finalize(parent)

    assert await hook.stream("ORDERS") == before


async def test_consumers_of_an_adopted_stream_see_the_channel_only(hook: Hook) -> None:
    await make_stream(hook.api, "ORDERS", "legacy.>")

    await hook.sync(channel(entry(), stream={"overrideName": "ORDERS"}))
    one = await hook.consumer("ORDERS", BILLING)
    await hook.sync(
        channel(entry(), stream={"overrideName": "ORDERS", "config": {"additionalSubjects": ["legacy.orders"]}})
    )
    two = await hook.consumer("ORDERS", BILLING)

    assert one is not None
    assert two is not None
    assert one["filter_subject"] == "shop.orders._knative"
    assert two["filter_subjects"] == ["shop.orders._knative", "legacy.orders"]


async def test_an_adopted_stream_that_does_not_take_our_subject_has_no_address(hook: Hook) -> None:
    await make_stream(hook.api, "ORDERS", "legacy.orders")
    await make_stream(hook.api, "GREEDY", "shop.*._knative")

    answer = await hook.sync(
        channel(entry(), stream={"overrideName": "ORDERS", "config": {"additionalSubjects": ["legacy.orders"]}})
    )

    ready = condition(answer, "StreamReady")
    assert (ready["status"], ready["reason"]) == ("False", "StreamUpdateRefused")
    assert "subjects overlap with an existing stream" in ready["message"]
    assert condition(answer, "Addressable")["reason"] == "SubjectNotCaptured"
    assert "address" not in answer["status"]


async def test_of_two_channels_that_name_one_stream_the_second_is_refused(hook: Hook) -> None:
    await make_stream(hook.api, "ORDERS", "legacy.orders")
    await hook.sync(channel(entry(), name="first", stream={"overrideName": "ORDERS"}))
    before = await hook.stream("ORDERS"), await hook.durables("ORDERS")

    answer = await hook.sync(channel(entry("bbbb-2"), name="second", stream={"overrideName": "ORDERS"}))

    assert hook.changes == []
    ready = condition(answer, "StreamReady")
    assert (ready["status"], ready["reason"]) == ("False", "StreamNotOurs")
    assert "shop/first" in ready["message"]
    assert answer["status"]["subscribers"][0]["ready"] == "False"

    finalized = await hook.finalize(channel(name="second", stream={"overrideName": "ORDERS"}))
    assert finalized["finalized"] is True
    assert (await hook.stream("ORDERS"), await hook.durables("ORDERS")) == before


async def test_a_named_stream_that_does_not_exist_is_made_and_is_ours(hook: Hook) -> None:
    parent = channel(entry(), stream={"overrideName": "ORDERS"})

    await hook.sync(parent)
    made = await hook.stream("ORDERS")
    assert made is not None
    assert made["metadata"]["headrace.dev/channel"] == "orders"
    second = await hook.sync(channel(name="second", stream={"overrideName": "ORDERS"}))
    assert condition(second, "StreamReady")["reason"] == "StreamNotOurs"

    await hook.finalize(parent)
    assert await hook.stream("ORDERS") is None


# --- the grammar names the stream ---


@pytest.mark.parametrize(
    ("settings", "parent"),
    [
        pytest.param({"HEADRACE_CLUSTER": "west"}, channel(entry()), id="another cluster"),
        pytest.param({}, channel(entry(), name="other", stream={"overrideName": STREAM}), id="another channel"),
        pytest.param({}, channel(entry(), stream={"overrideName": ASIDE}), id="the aside stream of the channel itself"),
    ],
)
async def test_a_stream_of_another_owner_is_never_touched(
    hook: Hook, connection: Client, settings: Mapping[str, Any], parent: Mapping[str, Any]
) -> None:
    await hook.sync(channel(entry()))
    before = await hook.stream(STREAM), await hook.stream(ASIDE), await hook.durables(STREAM)
    stranger = Hook(connection, **settings)

    answer = await stranger.sync(parent)
    assert condition(answer, "StreamReady")["reason"] == "StreamNotOurs"
    assert "shop/orders of cluster default" in condition(answer, "StreamReady")["message"]
    await stranger.finalize(parent)

    assert stranger.changes == []
    assert (await hook.stream(STREAM), await hook.stream(ASIDE), await hook.durables(STREAM)) == before


async def test_a_stream_of_the_name_without_our_subject_is_not_ours(hook: Hook) -> None:
    await make_stream(hook.api, STREAM, "something.else")

    answer = await hook.sync(channel(entry()))

    assert hook.changes == []
    assert condition(answer, "StreamReady")["reason"] == "StreamNotOurs"


async def test_a_channel_that_is_made_again_takes_its_stream_over(hook: Hook) -> None:
    await hook.sync(channel(entry(), uid="old", annotations={"headrace.dev/retain": "true"}))
    await hook.finalize(channel(entry(), uid="old", annotations={"headrace.dev/retain": "true"}))

    answer = await hook.sync(channel(entry(), uid="new"))

    assert condition(answer, "Ready")["status"] == "True"
    for name in (STREAM, ASIDE):
        made = await hook.stream(name)
        assert made is not None
        assert made["metadata"]["headrace.dev/uid"] == "new"


async def test_a_late_finalizer_does_not_delete_what_a_new_channel_has_taken_over(hook: Hook) -> None:
    await hook.sync(channel(entry(), uid="old"))
    await hook.sync(channel(entry(), uid="new"))

    answer = await hook.finalize(channel(uid="old"))

    assert answer["finalized"] is True
    assert hook.changes == []


async def test_the_go_channels_stream_is_taken_over_and_never_deleted(hook: Hook) -> None:
    await make_stream(hook.api, STREAM, "shop.orders._knative", max_bytes=1_000_000)
    parent = channel(entry(), stream=stream(maxBytes=2_000_000))

    answer = await hook.sync(parent)
    assert condition(answer, "Ready")["status"] == "True"
    made = await hook.stream(STREAM)
    assert made is not None
    assert made["metadata"]["headrace.dev/created"] == "peer"
    assert made["max_bytes"] == 2_000_000
    await hook.sync(parent)
    assert hook.changes == []

    await hook.finalize(parent)

    assert await hook.stream(STREAM) is not None
    assert await hook.durables(STREAM) == []
    assert await hook.stream(ASIDE) is None


async def test_a_strangers_consumer_of_the_name_is_not_touched(hook: Hook) -> None:
    await make_stream(hook.api, STREAM, "shop.orders._knative")
    push = durable(STREAM, BILLING)
    push["config"]["deliver_subject"] = "elsewhere"
    await hook.api.call(f"CONSUMER.CREATE.{STREAM}.{BILLING}", push)
    before = await hook.consumer(STREAM, BILLING)

    answer = await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))
    await hook.finalize(channel())

    billing, mail = answer["status"]["subscribers"]
    assert billing["ready"] == "False"
    assert f"consumer {BILLING} is a push consumer, which delivers to the subject 'elsewhere'" in billing["message"]
    assert mail["ready"] == "True"
    assert await hook.consumer(STREAM, BILLING) == before


def durable(stream_name: str, name: str) -> dict[str, Any]:
    return {"stream_name": stream_name, "config": {"durable_name": name, "name": name, "ack_policy": "explicit"}}
