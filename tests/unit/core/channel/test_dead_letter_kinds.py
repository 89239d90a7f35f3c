"""The kind of a dead letter sink: how our operator is told of it, and its words where there is no such kind."""

from __future__ import annotations

import pytest

from headrace.core.channel import dead_letter, related
from headrace.core.channel.dead_letter import Unresolved
from headrace.core.manifest import manifest
from headrace.core.manifest.own_address import OwnAddress
from tests.support.functions.channels import channel

BROKER = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "dead"}}
MOUSE = {"ref": {"apiVersion": "post.example.com/v1", "kind": "Mouse", "name": "dead"}}


def test_a_kind_that_the_cluster_does_not_serve_is_told_of_by_its_name() -> None:
    sink = manifest.parse(channel(delivery={"deadLetterSink": BROKER})).spec.delivery
    assert sink is not None
    found = dead_letter.resolve(
        sink.dead_letter_sink, {}, OwnAddress("shop", "orders"), {"Broker.eventing.knative.dev/v1"}
    )
    assert found == Unresolved(
        "DeadLetterSinkKindNotServed",
        "spec.delivery.deadLetterSink.ref: the cluster serves no kind 'Broker' of eventing.knative.dev/v1: install "
        "what brings it, or mend apiVersion and kind, as in kubectl api-resources",
    )


def test_a_stock_metacontroller_is_given_the_guess_and_nothing_of_ours() -> None:
    rules = related.rules(channel(delivery={"deadLetterSink": MOUSE}), stock=True)
    assert rules[1].to_json() == {"apiVersion": "post.example.com/v1", "resource": "mouses"}


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_an_object_that_never_has_an_address_is_not_watched_however_many_names_it_is_given(kind: str) -> None:
    ref = {"apiVersion": "v1", "kind": kind, "name": "dead"}
    parent = channel(delivery={"deadLetterSink": {"ref": ref}})
    assert [rule.resource for rule in related.rules(parent)] == ["subscriptions"]
    sink = manifest.parse(parent).spec.delivery
    assert sink is not None
    found = dead_letter.resolve(sink.dead_letter_sink, {f"{kind}.v1": {}}, OwnAddress("shop", "orders"))
    assert isinstance(found, Unresolved)
    assert found.reason == "DeadLetterSinkNotAddressable"
