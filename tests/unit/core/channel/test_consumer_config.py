"""The configuration of a subscriber's consumer, and whose a consumer is."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import consumer, own_consumer
from headrace.core.delivery.subscriber import METADATA_KEY, Destination, Subscriber
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.nats.stream import Owner
from tests.support.functions.channels import UID, channel

OWNER = Owner("default", "shop", "orders", UID)
BILLING = Subscriber(
    namespace="shop",
    channel="orders",
    name="billing",
    uid="aaaa-1",
    generation=1,
    aside="KN_SHOP__ORDERS_aside",
    subscription_namespace="shop",
    subscriber=Destination("http://billing/"),
)


def template(**fields: Any) -> ConsumerTemplate:
    return manifest.parse(channel(consumerConfigTemplate=fields)).spec.consumer_config_template


def test_the_consumer_of_a_template_that_says_nothing() -> None:
    assert consumer.config(BILLING, "KN_SUB_AAAA1", template(), ()) == {
        "durable_name": "KN_SUB_AAAA1",
        "name": "KN_SUB_AAAA1",
        "ack_policy": "explicit",
        "ack_wait": 8_000_000_000,
        "max_deliver": -1,
        "max_ack_pending": 10_000,
        "deliver_policy": "all",
        "opt_start_seq": 0,
        "opt_start_time": None,
        "replay_policy": "instant",
        "sample_freq": "",
        "filter_subject": "",
        "filter_subjects": [],
        "mem_storage": False,
        "headers_only": False,
        "inactive_threshold": 0,
        "backoff": [],
        "max_batch": 0,
        "max_bytes": 0,
        "max_expires": 0,
        "metadata": {
            METADATA_KEY: BILLING.to_json(),
            "headrace.dev/namespace": "shop",
            "headrace.dev/channel": "orders",
            "headrace.dev/subscription": "billing",
        },
    }


@pytest.mark.parametrize(
    ("fields", "subjects", "key", "value"),
    [
        ({"deliverPolicy": "Last"}, (), "deliver_policy", "last"),
        ({"deliverPolicy": "New"}, (), "deliver_policy", "new"),
        ({"deliverPolicy": "ByStartSequence", "optStartSeq": 5}, (), "deliver_policy", "by_start_sequence"),
        ({"deliverPolicy": "ByStartSequence", "optStartSeq": 5}, (), "opt_start_seq", 5),
        (
            {"deliverPolicy": "ByStartTime", "optStartTime": "2026-01-01T00:00:00Z"},
            (),
            "opt_start_time",
            "2026-01-01T00:00:00Z",
        ),
        ({"replayPolicy": "Original"}, (), "replay_policy", "original"),
        ({"sampleFrequency": "30%"}, (), "sample_freq", "30%"),
        ({"maxAckPending": 7}, (), "max_ack_pending", 7),
        pytest.param({"maxAckPending": 0}, (), "max_ack_pending", 10_000, id="zero is the default"),
        pytest.param({"ackWait": "30s"}, (), "ack_wait", 8_000_000_000, id="ack wait is ours"),
        pytest.param({"maxDeliver": 3}, (), "max_deliver", -1, id="the budget is ours"),
        ({"filterSubject": "a.b"}, (), "filter_subject", "a.b"),
        ({}, ("a.b",), "filter_subject", "a.b"),
        ({}, ("a.b",), "filter_subjects", []),
        ({}, ("a.b", "c"), "filter_subjects", ["a.b", "c"]),
        ({}, ("a.b", "c"), "filter_subject", ""),
        pytest.param({"filterSubject": "x"}, ("a.b", "c"), "filter_subject", "x", id="the author's filter wins"),
    ],
)
def test_the_template_is_the_consumers(
    fields: dict[str, Any], subjects: tuple[str, ...], key: str, value: object
) -> None:
    assert consumer.config(BILLING, "KN_SUB_AAAA1", template(**fields), subjects)[key] == value


def test_the_rate_limit_is_forwards_to_keep() -> None:
    made = consumer.config(BILLING, "KN_SUB_AAAA1", template(rateLimitBPS=8), ())

    assert "rate_limit_bps" not in made


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"deliverPolicy": "ByStartSequence"}, "optStartSeq"),
        ({"deliverPolicy": "ByStartTime"}, "optStartTime"),
        ({"deliverPolicy": "All", "optStartSeq": 5}, "optStartSeq"),
        ({"deliverPolicy": "New", "optStartTime": "2026-01-01T00:00:00Z"}, "optStartTime"),
    ],
)
def test_a_start_that_does_not_fit_the_policy_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse(channel(consumerConfigTemplate=fields))

    assert refused.value.field == f"spec.consumerConfigTemplate.{field}"


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"headrace.dev/namespace": "shop", "headrace.dev/channel": "orders"},
        {METADATA_KEY: Subscriber("bank", "orders", "a", "u", 1, "x").to_json()},
        {METADATA_KEY: Subscriber("shop", "other", "a", "u", 1, "x").to_json()},
        {METADATA_KEY: "{", "headrace.dev/namespace": "shop", "headrace.dev/channel": "other"},
        {METADATA_KEY: "{"},
    ],
)
def test_consumers_of_others_are_not_ours(metadata: dict[str, str] | None) -> None:
    assert own_consumer.owned({"metadata": metadata}, OWNER) is None


def test_our_consumer_is_known_by_its_metadata() -> None:
    assert own_consumer.owned({"metadata": {METADATA_KEY: BILLING.to_json()}}, OWNER) == BILLING


def test_a_damaged_consumer_is_known_by_the_labels_beside() -> None:
    metadata = {
        METADATA_KEY: "{",
        "headrace.dev/namespace": "shop",
        "headrace.dev/channel": "orders",
        "headrace.dev/subscription": "billing",
    }

    found = own_consumer.owned({"metadata": metadata}, OWNER)

    assert found is not None
    assert (found.name, found.uid, found.generation) == ("billing", "", 0)
