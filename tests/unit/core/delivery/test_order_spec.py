"""Annotations about order, and the requests to the server that follow from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.channel import consumer
from headrace.core.delivery import order_spec
from headrace.core.delivery.order_spec import DeliveryOrder, OrderSpec
from headrace.core.delivery.subscriber import Subscriber, SubscriberState, from_json
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry

ORDER, KEY = "headrace.dev/delivery-order", "headrace.dev/order-key"
BILLING = Subscriber("shop", "orders", "billing", "aaaa-1", 1, "KN_SHOP__ORDERS_aside", "shop")


@pytest.mark.parametrize(
    ("annotations", "order"),
    [
        ({}, OrderSpec(DeliveryOrder.UNORDERED, "partitionkey")),
        ({ORDER: "unordered"}, OrderSpec(DeliveryOrder.UNORDERED, "partitionkey")),
        ({ORDER: "ordered"}, OrderSpec(DeliveryOrder.ORDERED, "partitionkey")),
        ({ORDER: "by-key"}, OrderSpec(DeliveryOrder.BY_KEY, "partitionkey")),
        ({ORDER: "by-key", KEY: "tenant"}, OrderSpec(DeliveryOrder.BY_KEY, "tenant")),
    ],
)
def test_annotations_say_the_order(annotations: dict[str, str], order: OrderSpec) -> None:
    assert order_spec.from_annotations(annotations) == order


@pytest.mark.parametrize(
    ("annotations", "order"),
    [
        ({}, OrderSpec(DeliveryOrder.BY_KEY, "tenant")),
        ({ORDER: "unordered"}, OrderSpec(DeliveryOrder.UNORDERED, "tenant")),
        ({KEY: "customer"}, OrderSpec(DeliveryOrder.BY_KEY, "customer")),
    ],
)
def test_what_a_subscription_does_not_say_its_channel_says(annotations: dict[str, str], order: OrderSpec) -> None:
    assert order_spec.from_annotations(annotations, OrderSpec(DeliveryOrder.BY_KEY, "tenant")) == order


@pytest.mark.parametrize(
    ("name", "value"),
    [(ORDER, "by_key"), (ORDER, ""), (ORDER, "Ordered"), (KEY, ""), (KEY, "Tenant"), (KEY, "data"), (KEY, "a-b")],
)
def test_a_wrong_value_is_refused_by_the_name_of_the_annotation(name: str, value: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        order_spec.from_annotations({name: value})
    assert refused.value.field == f"metadata.annotations[{name}]"
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize(
    ("annotations", "default"),
    [
        ({KEY: "tenant"}, OrderSpec()),
        ({KEY: "tenant", ORDER: "ordered"}, OrderSpec()),
        ({KEY: "tenant", ORDER: "unordered"}, OrderSpec(DeliveryOrder.BY_KEY, "customer")),
    ],
)
def test_a_key_without_an_order_by_key_is_refused(annotations: dict[str, str], default: OrderSpec) -> None:
    with pytest.raises(InvalidSpec, match=r"it counts with headrace\.dev/delivery-order: by-key only") as refused:
        order_spec.refuse_useless_key(annotations, [order_spec.from_annotations(annotations, default)])
    assert "is 'tenant': " in str(refused.value)
    assert refused.value.field == f"metadata.annotations[{KEY}]"


# ── in the consumer ─────────────────────────────────────────────────────────────────────────────────────────────────


def rows(*entries: dict[str, Any], **annotations: str) -> tuple[consumer.Row, ...]:
    named = {f"headrace.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return consumer.rows(manifest.parse(channel(*entries, annotations=named)), "KN_SHOP__ORDERS")


def test_a_channels_order_is_its_subscribers_unless_they_say_otherwise() -> None:
    own = {"annotations": {ORDER: "by-key", KEY: "tenant"}}
    first, second = rows(entry(), entry("bbbb-1", **own), delivery_order="ordered")
    assert first.subscriber is not None
    assert second.subscriber is not None
    assert first.subscriber.order == OrderSpec(DeliveryOrder.ORDERED)
    assert second.subscriber.order == OrderSpec(DeliveryOrder.BY_KEY, "tenant")


def test_a_channels_key_is_for_those_subscriptions_that_want_the_order() -> None:
    first, second = rows(entry(), entry("bbbb-1", annotations={ORDER: "by-key"}), order_key="tenant")
    assert first.subscriber is not None
    assert second.subscriber is not None
    assert first.subscriber.order.kind is DeliveryOrder.UNORDERED
    assert second.subscriber.order == OrderSpec(DeliveryOrder.BY_KEY, "tenant")


def test_a_channels_key_that_orders_nobody_is_a_mistake_of_the_channel() -> None:
    assert rows(order_key="tenant") == ()
    with pytest.raises(InvalidSpec, match="by-key only, and the order is ordered") as refused:
        rows(entry(), entry("bbbb-1"), order_key="tenant", delivery_order="ordered")
    assert refused.value.field == f"metadata.annotations[{KEY}]"


def test_a_subscriptions_key_without_the_order_is_refused_alone() -> None:
    first, second = rows(entry(annotations={KEY: "tenant"}), entry("bbbb-1"))
    assert first.subscriber is not None
    assert second.subscriber is not None
    assert first.subscriber.reason.startswith(f"spec.subscribers[0].annotations[{KEY}] is 'tenant': it counts with")
    assert second.subscriber.state is SubscriberState.READY


def test_a_channel_with_a_wrong_order_makes_no_sense() -> None:
    with pytest.raises(InvalidSpec) as refused:
        rows(entry(), delivery_order="sorted")
    assert refused.value.field == f"metadata.annotations[{ORDER}]"


def test_a_subscription_with_a_wrong_order_is_refused_alone() -> None:
    first, second = rows(entry(annotations={ORDER: "sorted"}), entry("bbbb-1"))
    assert first.subscriber is not None
    assert second.subscriber is not None
    assert first.subscriber.state is SubscriberState.REFUSED
    assert first.subscriber.reason.startswith(f"spec.subscribers[0].annotations[{ORDER}] is 'sorted'")
    assert second.subscriber.state is SubscriberState.READY


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (DeliveryOrder.UNORDERED, {}),
        (DeliveryOrder.ORDERED, {"max_ack_pending": 1}),
        (
            DeliveryOrder.BY_KEY,
            {"priority_groups": ["headrace"], "priority_policy": "pinned_client", "priority_timeout": 5_000_000_000},
        ),
    ],
)
def test_what_the_server_is_to_enforce(kind: DeliveryOrder, settings: dict[str, object]) -> None:
    template = manifest.parse(channel(consumerConfigTemplate={"maxAckPending": 7})).spec.consumer_config_template
    made = consumer.config(replace(BILLING, order=OrderSpec(kind)), "KN_SUB_AAAA1", template, ())
    found = {key: value for key, value in made.items() if key.startswith("priority") or key == "max_ack_pending"}
    assert found == {"max_ack_pending": 7, **settings}


PINNED: dict[str, Any] = {"priority_groups": ["headrace"], "priority_policy": "pinned_client"}
THEIRS: dict[str, Any] = {"priority_groups": ["others"], "priority_policy": "overflow"}


@pytest.mark.parametrize(
    ("observed", "wanted", "changes"),
    [
        pytest.param(PINNED, {}, {"priority_groups": [], "priority_policy": "none", "priority_timeout": 0}, id="ours"),
        pytest.param(PINNED, PINNED, {}, id="still by-key"),
        pytest.param({}, {}, {}, id="never by-key"),
        pytest.param(
            THEIRS,
            {},
            {"priority_groups": [], "priority_policy": "none", "priority_timeout": 0},
            id="somebody else's group, without which the server takes no pull",
        ),
    ],
)
def test_the_group_is_taken_away_from_a_consumer_that_is_not_by_key_any_more(
    observed: dict[str, Any], wanted: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert order_spec.undone(observed, wanted) == changes


@pytest.mark.parametrize(
    ("asked", "got", "old"), [(PINNED, PINNED, False), (PINNED, {}, True), ({}, {}, False), (PINNED, THEIRS, True)]
)
def test_a_server_that_drops_the_settings_is_too_old(asked: Any, got: Any, old: bool) -> None:
    assert bool(order_spec.too_old(asked, got)) is old


# ── in its metadata ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "order",
    [OrderSpec(), OrderSpec(DeliveryOrder.ORDERED), OrderSpec(DeliveryOrder.BY_KEY, "tenant")],
)
def test_the_order_goes_into_the_metadata_and_back(order: OrderSpec) -> None:
    subscriber = replace(BILLING, order=order)
    assert from_json(subscriber.to_json()) == subscriber


def test_metadata_of_before_there_was_an_order_still_reads() -> None:
    assert "rder" not in BILLING.to_json().replace("KN_SHOP__ORDERS", "").replace("orders", "")
    assert from_json(BILLING.to_json()).order == OrderSpec()


def test_metadata_with_an_order_that_nobody_knows_is_damaged() -> None:
    text = replace(BILLING, order=OrderSpec(DeliveryOrder.ORDERED)).to_json()
    with pytest.raises(InvalidSpec):
        from_json(text.replace('"ordered"', '"sorted"'))


@pytest.mark.parametrize(
    ("kind", "leases"), [(DeliveryOrder.UNORDERED, 4), (DeliveryOrder.ORDERED, 1), (DeliveryOrder.BY_KEY, 1)]
)
def test_where_there_is_an_order_one_lease_is_all(kind: DeliveryOrder, leases: int) -> None:
    assert replace(BILLING, order=OrderSpec(kind)).most_leases == leases
