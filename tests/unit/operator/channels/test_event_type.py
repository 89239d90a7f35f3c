"""EventTypes have the names, fields and owners of those that Knative makes by itself."""

from __future__ import annotations

import re

import pytest

from headrace.core.event.event_kinds import EventKind
from headrace_operator.channels import event_type
from tests.support.functions.channels import UID, channel

KIND = EventKind("events.type", "events.source", "", "1.0")


def test_the_name_is_the_one_that_knative_gives() -> None:
    # Made by Knative's own code for a channel of this name.
    assert event_type.name(("default", "example"), KIND) == "et-example-eaed2996d719048dfae11b607d68b7ad"


@pytest.mark.parametrize("called", ["c" * 217, "c" * 218, "c" * 253, "a." * 126 + "a", "a" * 216 + "." + "b" * 20])
def test_channels_with_long_names_have_a_name_for_each_kind_that_kubernetes_takes(called: str) -> None:
    found = {event_type.name(("shop", called), KIND._replace(type=type_)) for type_ in ("a", "b")}
    assert len(found) == 2
    for one in found:
        assert len(one) <= 253
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", one)


def test_the_fields_are_those_that_knative_gives() -> None:
    reference = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}
    found = event_type.body(channel(), EventKind("order.created", "/shop", "http://schemas/order", "1.0"))
    assert found.pop("metadata") == {
        "name": event_type.name(("shop", "orders"), KIND._replace(type="order.created", source="/shop")),
        "namespace": "shop",
        "ownerReferences": [reference | {"uid": UID}],
    }
    assert found == {
        "apiVersion": "eventing.knative.dev/v1beta3",
        "kind": "EventType",
        "spec": {
            "reference": reference | {"namespace": "shop"},
            "description": "Event Type auto-created by controller",
            "attributes": [
                {"name": "type", "required": True, "value": "order.created"},
                {"name": "source", "required": True, "value": "/shop"},
                {"name": "schemadata", "required": True, "value": "http://schemas/order"},
                {"name": "specversion", "required": True, "value": "1.0"},
                {"name": "id", "required": True},
            ],
        },
    }


def test_what_one_of_anybodys_says_is_read_back() -> None:
    found = event_type.body(channel(), KIND)
    assert event_type.told(found) == (("shop", "orders"), "events.type", "events.source")
    del found["spec"]["reference"]["namespace"]
    found["spec"]["reference"]["apiVersion"] = "messaging.knative.dev/v1"
    assert event_type.told(found) == (("shop", "orders"), "events.type", "events.source")


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param(None, id="no reference"),
        pytest.param({"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}, id="a Broker's"),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "NatsJetStreamChannel", "name": "orders"}, id="a namesake's"
        ),
        pytest.param(
            {
                "apiVersion": "messaging.knative.dev/v1alpha1",
                "kind": "NatsJetStreamChannel",
                "name": "orders",
                "namespace": "bank",
            },
            id="from another namespace",
        ),
    ],
)
def test_one_of_anything_else_counts_for_no_channel(reference: dict[str, str] | None) -> None:
    found = event_type.body(channel(), KIND)
    found["spec"]["reference"] = reference
    assert event_type.told(found) is None


def test_a_brokers_channel_is_known() -> None:
    brokers = channel()
    brokers["metadata"]["ownerReferences"] = [{"kind": "Broker", "name": "default"}]
    assert event_type.is_brokers(brokers)
    assert not event_type.is_brokers(channel())
