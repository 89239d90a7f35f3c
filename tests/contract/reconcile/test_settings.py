"""Settings that NATS has learned since the Go channel was written, on a real server: taken, kept, and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.io.nats.client import Client
from tests.control_plane.channel_manifests import PROPOSAL
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition

STREAM, BILLING = "KN_SHOP__ORDERS", "KN_SUB_AAAA1"
HOST = "http://orders-kn-jsm-channel.shop.svc.cluster.local"
GROWN: dict[str, Any] = {
    "discard": "New",
    "maxMsgsPerSubject": 7,
    "discardNewPerSubject": True,
    "compression": "S2",
    "denyDelete": True,
    "allowDirect": True,
    "allowRollup": True,
    "subjectTransform": {"source": "legacy.*", "destination": "shop.legacy.{{wildcard(1)}}"},
    "additionalSubjects": ["legacy.*"],
    "republish": {"source": ">", "destination": "seen.>", "headersOnly": True},
    "firstSeq": "100",
    "metadata": {"team": "shop"},
    "consumerLimits": {"maxAckPending": 50},
    "allowMsgTTL": True,
    "allowAtomic": True,
    "allowBatched": True,
}
TEMPLATE = {"maxAckPending": 50, "filterSubjects": ["shop.orders._knative", "shop.legacy.*"], "metadata": {"a": "b"}}


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


async def test_a_channel_with_every_new_setting_is_made_and_then_left_alone(hook: Hook) -> None:
    parent = channel(entry("aaaa-1"), stream=stream(**GROWN), consumerConfigTemplate=TEMPLATE)

    answer = await hook.sync(parent)
    await hook.sync(parent)

    assert condition(answer, "Ready")["status"] == "True"
    assert hook.changes == []
    made = await hook.stream(STREAM)
    assert made is not None
    assert (made["compression"], made["first_seq"], made["max_msgs_per_subject"]) == ("s2", 100, 7)
    assert (made["discard_new_per_subject"], made["deny_delete"], made["allow_rollup_hdrs"]) == (True, True, True)
    assert made["subject_transform"] == {"src": "legacy.*", "dest": "shop.legacy.{{wildcard(1)}}"}
    assert made["republish"] == {"src": ">", "dest": "seen.>", "headers_only": True}
    assert made["consumer_limits"] == {"max_ack_pending": 50}
    assert (made["allow_msg_ttl"], made["allow_atomic"], made["allow_batched"]) == (True, True, True)
    assert made["metadata"]["team"] == "shop"
    consumer = await hook.consumer(STREAM, BILLING)
    assert consumer is not None
    assert consumer["filter_subjects"] == ["shop.orders._knative", "shop.legacy.*"]
    assert consumer["metadata"]["a"] == "b"


async def test_taking_a_setting_out_takes_it_back(hook: Hook) -> None:
    await hook.sync(channel(stream=stream(compression="S2", allowDirect=True, republish={"destination": "seen.>"})))

    answer = await hook.sync(channel())

    assert condition(answer, "Ready")["status"] == "True"
    made = await hook.stream(STREAM)
    assert made is not None
    assert (made["compression"], made["allow_direct"]) == ("none", False)
    assert not made.get("republish")


async def test_a_mirror_becomes_a_channel_when_it_is_taken_out(hook: Hook) -> None:
    await hook.api.call("STREAM.CREATE.HUB", {"name": "HUB", "subjects": ["hub.>"], "storage": "file"})
    mirrored = await hook.sync(channel(stream=stream(mirror={"name": "HUB"}, mirrorDirect=True)))

    answer = await hook.sync(channel(stream=stream()))

    assert condition(mirrored, "Addressable")["reason"] == "MirrorIsReadOnly"
    assert condition(answer, "Ready")["status"] == "True"
    addresses = [one["status"]["address"]["url"] for one in (mirrored, answer)]
    assert addresses == [f"{HOST}/read-only", HOST]


@pytest.mark.parametrize("config", [{"persistMode": "Async"}, {"allowMsgSchedules": True}])
async def test_settings_with_an_effect_on_others_settle(hook: Hook, config: dict[str, Any]) -> None:
    parent = channel(stream=stream(**config), consumerConfigTemplate={"filterSubject": "shop.orders._knative"})

    answer = await hook.sync(parent)
    await hook.sync(parent)

    assert condition(answer, "Ready")["status"] == "True"
    assert hook.changes == []


async def test_the_proposals_page_of_fields_is_a_channel_as_if_nothing_were_given(hook: Hook) -> None:
    await hook.sync(channel(entry()))
    plain = await hook.stream(STREAM)

    answer = await hook.sync({**channel(entry()), "spec": {**PROPOSAL, "subscribers": [entry()]}})

    told = {one["type"]: one["status"] for one in answer["status"]["conditions"]}
    assert set(told.values()) == {"True"}, answer["status"]["conditions"]
    assert (await hook.stream(STREAM)) == plain
    assert hook.changes == []
