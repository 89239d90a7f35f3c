"""A child of a channel: how it is marked, whose it is, and whether it is there already."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_operator.channels import child
from headrace_operator.kube.kinds import Kind
from tests.support.functions.channels import UID, channel

SERVICE = Kind("v1", "Service", "services")
PARENT = channel()
OURS = {"app.kubernetes.io/managed-by": "headrace"}
APPLIED = [{"manager": "headrace", "operation": "Apply"}, {"manager": "kubectl", "operation": "Update"}]
CHANNEL = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "uid": UID}
ROUTE = {"apiVersion": "serving.knative.dev/v1", "kind": "Route", "uid": "r", "controller": True}


def answer(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "orders-kn-jsm-channel", **metadata},
        "spec": {"type": "ExternalName"},
    }


def live(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "orders-kn-jsm-channel", "namespace": "shop", "uid": "1", **metadata}}


def test_a_child_says_whose_it_is() -> None:
    found = child.wanted(PARENT, answer(labels={"a": "b"}), SERVICE)
    assert found.place == ("shop", "orders-kn-jsm-channel")
    assert found.body["metadata"]["labels"] == {
        "a": "b",
        "app.kubernetes.io/managed-by": "headrace",
        "headrace.dev/channel-uid": UID,
    }
    assert found.body["metadata"]["annotations"]["headrace.dev/channel"] == "shop/orders"
    assert child.owner(PARENT, shared=found.shared) == {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "name": "orders",
        "uid": UID,
        "controller": True,
    }


def test_a_shared_child_is_of_no_single_channel() -> None:
    found = child.wanted(PARENT, answer(labels={"headrace.dev/shared": "true"}), SERVICE)
    assert found.shared
    assert "headrace.dev/channel-uid" not in found.body["metadata"]["labels"]
    assert "controller" not in child.owner(PARENT, shared=True)
    other = child.wanted(channel(name="returns", uid="2"), answer(labels={"headrace.dev/shared": "true"}), SERVICE)
    assert other.digest == found.digest


def test_a_child_in_another_namespace_has_no_owner_since_the_garbage_collector_would_take_it() -> None:
    assert not child.may_own(child.wanted(PARENT, answer(namespace="elsewhere"), SERVICE), PARENT)
    assert child.may_own(child.wanted(PARENT, answer(), SERVICE), PARENT)


def test_the_digest_changes_with_what_is_wanted_only() -> None:
    same = child.wanted(PARENT, answer(uid="whatever", resourceVersion="7"), SERVICE)
    assert same.digest == child.wanted(PARENT, answer(), SERVICE).digest
    assert same.digest != child.wanted(PARENT, answer(labels={"a": "b"}), SERVICE).digest


@pytest.mark.parametrize(
    ("metadata", "foreign"),
    [
        pytest.param({}, True, id="somebody's"),
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "helm"}}, True, id="another tool's"),
        pytest.param({"labels": {**OURS, "headrace.dev/channel-uid": UID}, "managedFields": APPLIED}, False, id="ours"),
        pytest.param({"labels": {**OURS, "headrace.dev/channel-uid": UID}}, True, id="what bears our labels only"),
        pytest.param(
            {"labels": {**OURS, "headrace.dev/channel-uid": "2"}, "managedFields": APPLIED},
            True,
            id="another channel's",
        ),
        pytest.param(
            {"ownerReferences": [{**CHANNEL, "controller": True}]}, False, id="what the Go channel made for this one"
        ),
    ],
)
def test_what_is_not_of_this_channel_is_not_written(metadata: dict[str, Any], foreign: bool) -> None:
    assert child.is_foreign(live(**metadata), child.wanted(PARENT, answer(), SERVICE), PARENT) is foreign


@pytest.mark.parametrize(
    ("metadata", "ours"),
    [
        pytest.param({"ownerReferences": [{**CHANNEL, "controller": True}]}, True, id="a channel controls it"),
        pytest.param({"ownerReferences": [CHANNEL, {**CHANNEL, "uid": "2"}]}, True, id="channels share it"),
        pytest.param({"managedFields": APPLIED}, True, id="no channel can own it, and we have applied it"),
        pytest.param({"ownerReferences": [ROUTE]}, False, id="Knative made it for a Route"),
        pytest.param({"ownerReferences": [CHANNEL, ROUTE]}, False, id="a channel owns it, a Route controls it"),
        pytest.param({"ownerReferences": [ROUTE], "managedFields": APPLIED}, False, id="somebody took it over"),
        pytest.param({}, False, id="somebody copied it"),
        pytest.param({"managedFields": APPLIED[1:]}, False, id="somebody has written it"),
        pytest.param(
            {"managedFields": [{"manager": "headrace", "operation": "Update"}]}, False, id="we have not applied it"
        ),
        pytest.param(
            {"ownerReferences": [{**CHANNEL, "apiVersion": "messaging.example/v1"}]}, False, id="a kind of that name"
        ),
    ],
)
def test_what_is_ours_is_said_by_owners_and_by_who_applied_it_never_by_labels(
    metadata: dict[str, Any], ours: bool
) -> None:
    copied = {"labels": {**OURS, "headrace.dev/channel-uid": UID}, "annotations": {"headrace.dev/applied": "1"}}
    assert child.is_ours(live(**copied, **metadata)) is ours


@pytest.mark.parametrize(
    ("there", "wanted", "covered"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="others add fields"),
        pytest.param({"a": 2}, {"a": 1}, False, id="another value"),
        pytest.param({}, {"a": None}, True, id="null is nothing"),
        pytest.param({"l": [{"a": 1, "b": 2}]}, {"l": [{"a": 1}]}, True, id="defaults in the items of a list"),
        pytest.param({"l": [1, 2]}, {"l": [1]}, False, id="another item"),
        pytest.param({"l": "text"}, {"l": [1]}, False, id="another type"),
    ],
)
def test_what_is_wanted_may_be_there_with_more(there: object, wanted: object, covered: bool) -> None:
    assert child.covers(there, wanted) is covered


def test_the_fingerprint_leaves_out_what_nobody_means() -> None:
    seen = child.fingerprint(live(resourceVersion="1", generation=1) | {"status": {"ready": 0}})
    assert child.fingerprint(live(resourceVersion="9", generation=2) | {"status": {"ready": 1}}) == seen
    assert child.fingerprint(live(labels={"a": "b"})) != seen


def test_the_hook_sees_conditions_and_not_every_count() -> None:
    seen = child.signature(live() | {"status": {"readyReplicas": 0, "conditions": []}})
    assert child.signature(live() | {"status": {"readyReplicas": 3, "conditions": []}}) == seen
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "now"}
    assert child.signature(live() | {"status": {"conditions": [ready]}}) != seen


def test_one_more_owner_of_a_shared_child_is_nothing_to_the_others() -> None:
    labels = {"headrace.dev/shared": "true"}
    seen = child.signature(live(labels=labels, ownerReferences=[{"uid": "1"}]))
    assert child.signature(live(labels=labels, ownerReferences=[{"uid": "1"}, {"uid": "2"}])) == seen
    assert child.signature(live(ownerReferences=[{"uid": "1"}])) != child.signature(live(ownerReferences=[]))
