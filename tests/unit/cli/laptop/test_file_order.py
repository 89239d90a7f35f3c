"""The order of delivery in manifest files: on a channel for all its Subscriptions, on a Subscription for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import InvalidSpec
from tests.support.laptop.manifest_files import CHANNEL, SUBSCRIPTION, Read, reader

ORDER, KEY = "headrace.dev/delivery-order", "headrace.dev/order-key"


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return reader(tmp_path)


def annotated(document: str, **annotations: str) -> str:
    words = ", ".join(f'"headrace.dev/{name.replace("_", "-")}": "{value}"' for name, value in annotations.items())
    return document.replace("}\n", f", annotations: {{{words}}}}}\n", 1)


def test_a_subscriptions_order_is_in_its_entry(read: Read) -> None:
    subscription = annotated(SUBSCRIPTION, delivery_order="by-key", order_key="tenant", runtime="knative")
    [entry] = read(CHANNEL, subscription).channels["default", "orders"]["spec"]["subscribers"]
    assert entry["annotations"] == {ORDER: "by-key", KEY: "tenant"}


def test_a_channels_order_stays_with_the_channel(read: Read) -> None:
    parent = read(annotated(CHANNEL, delivery_order="ordered"), SUBSCRIPTION).channels["default", "orders"]
    assert parent["metadata"]["annotations"] == {ORDER: "ordered"}
    assert "annotations" not in parent["spec"]["subscribers"][0]


def test_a_subscription_may_name_another_key_for_its_channels_order(read: Read) -> None:
    documents = annotated(CHANNEL, delivery_order="by-key"), annotated(SUBSCRIPTION, order_key="tenant")
    [entry] = read(*documents).channels["default", "orders"]["spec"]["subscribers"]
    assert entry["annotations"] == {KEY: "tenant"}


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        (
            (annotated(CHANNEL, delivery_order="sorted"),),
            "document 1: metadata.annotations[headrace.dev/delivery-order] is 'sorted': it should be",
        ),
        (
            (CHANNEL, annotated(SUBSCRIPTION, order_key="Tenant")),
            "document 2: metadata.annotations[headrace.dev/order-key] is 'Tenant': it should name an attribute",
        ),
    ],
)
def test_a_wrong_order_is_told_with_file_document_and_value(read: Read, documents: tuple[str, ...], told: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read(*documents)
    assert told in str(refused.value)
