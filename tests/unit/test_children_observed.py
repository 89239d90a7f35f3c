"""What is read off objects that exist: whether they work, and how they are wanted once more as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from headrace.core import children
from tests.support.channels import entry
from tests.support.children import as_observed, called, remaining, wanted

PLAIN = {"runtime": "deployment"}


def says(one: dict[str, Any], **conditions: dict[str, str]) -> dict[str, Any]:
    return {**one, "status": {"conditions": [{"type": type_, **said} for type_, said in conditions.items()]}}


def verdict(*conditions: dict[str, dict[str, str]], settings: dict[str, Any] | None = None) -> tuple[bool, str, bool]:
    """FunctionsReady, when the objects have these conditions, one after the other; the last ones for all others."""
    given = settings or {}
    objects = wanted(entry(), settings=given).objects
    padded = [*conditions, *([conditions[-1]] * len(objects))]
    observed = [says(one, **said) for one, said in zip(objects, padded, strict=False)]
    (said,) = wanted(entry(), settings=given, observed=observed).conditions
    assert said.type == "FunctionsReady"
    return said.holds, said.reason, said.informative


WORKS = {"Ready": {"status": "True"}, "Available": {"status": "True"}}


@pytest.mark.parametrize(
    ("conditions", "settings", "expected"),
    [
        pytest.param([WORKS], {}, (True, "", False), id="all work"),
        pytest.param([{"Ready": {"status": "Unknown"}}], {}, (False, "FunctionsStarting", True), id="starting"),
        pytest.param(
            [WORKS, {"Ready": {"status": "False", "message": "no such image"}}],
            {},
            (False, "FunctionFailed", False),
            id="one has failed",
        ),
        pytest.param(
            [{"Available": {"status": "False"}, "Progressing": {"status": "True"}}],
            PLAIN,
            (False, "FunctionsStarting", True),
            id="a Deployment that is on its way",
        ),
        pytest.param(
            [{"Available": {"status": "False"}, "Progressing": {"status": "False", "reason": "DeadlineExceeded"}}],
            PLAIN,
            (False, "FunctionFailed", False),
            id="a Deployment that gets nowhere",
        ),
        pytest.param(
            [{"ReplicaFailure": {"status": "True", "message": "quota"}}],
            PLAIN,
            (False, "FunctionFailed", False),
            id="a Deployment that may not have pods",
        ),
    ],
)
def test_functions_ready(
    conditions: list[dict[str, dict[str, str]]], settings: dict[str, Any], expected: tuple[bool, str, bool]
) -> None:
    assert verdict(*conditions, settings=settings) == expected


def test_a_failure_is_told_with_its_name_and_words() -> None:
    objects = wanted(entry()).objects
    broken = [says(one, Ready={"status": "False", "message": "no such image"}) for one in objects]

    (said,) = wanted(entry(), observed=broken).conditions

    assert said.message.endswith(": no such image")


def test_what_was_not_seen_yet_is_no_reason_not_to_be_ready() -> None:
    (said,) = wanted(entry()).conditions

    assert (said.holds, said.reason, said.informative) == (False, "FunctionsStarting", True)
    assert said.message.startswith("not ready yet: forward-billing-")


def test_of_what_is_shared_with_other_namespaces_nobody_may_have_told() -> None:
    (forward,) = (one for one in wanted(entry()).objects if one["metadata"]["name"].startswith("forward-"))

    (said,) = wanted(entry(), observed=[says(forward, Ready={"status": "True"})]).conditions

    assert said.holds


def test_what_knative_makes_for_a_function_with_its_labels_is_no_object_of_the_channel() -> None:
    (forward,) = (one for one in wanted(entry()).objects if one["metadata"]["name"].startswith("forward-"))
    channel = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "controller": True}
    revision = {"apiVersion": "serving.knative.dev/v1", "kind": "Revision", "controller": True}
    ours = {**forward, "metadata": {**forward["metadata"], "ownerReferences": [channel]}}
    copied = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**forward["metadata"], "name": "forward-1-deployment", "ownerReferences": [revision]},
    }

    seen = children.legible(as_observed([ours, copied]))

    assert list(seen["Service.serving.knative.dev/v1"].values()) == [ours]
    assert seen["Deployment.apps/v1"] == {}


NAMESPACED = {"eventing.knative.dev/scope": "namespace"}
TEMPLATE = {"labels": {"team": "a"}}


@pytest.mark.parametrize(
    ("settings", "parts", "annotations"),
    [
        pytest.param({}, {}, {}, id="of the cluster's scope"),
        pytest.param({}, {}, {"headrace.dev/runtime": "nonsense"}, id="its runtime makes no sense"),
        pytest.param({}, {}, {"eventing.knative.dev/scope": "galaxy"}, id="its scope makes no sense"),
        pytest.param({}, {"annotations": NAMESPACED}, NAMESPACED, id="of its namespace's scope"),
        pytest.param(
            {}, {"annotations": NAMESPACED}, {"eventing.knative.dev/scope": "galaxy"}, id="its scope made sense before"
        ),
        pytest.param({}, {"deploymentSpecTemplate": TEMPLATE}, {}, id="a set of its own"),
        pytest.param({"isolation": "shared"}, {}, {}, id="a shared forward"),
        pytest.param(PLAIN, {}, {}, id="plain ones"),
    ],
)
@pytest.mark.parametrize("told", [True, False], ids=["told of what it shares", "not told of what it shares"])
def test_a_channel_that_makes_no_sense_keeps_what_it_has_and_what_it_shares(
    settings: dict[str, Any], parts: dict[str, Any], annotations: dict[str, str], told: bool
) -> None:
    before = wanted(entry(), settings=settings, **parts)
    objects = [
        as_the_server_has_it(one)
        for one in before.objects
        # Of those in other namespaces an operator may not tell.
        if told or "headrace.dev/shared" not in one["metadata"]["labels"] or one["metadata"]["namespace"] == "shop"
    ]

    after = remaining(objects, settings=settings, **annotations)

    assert called(after) == called(before)
    # What is shared is wanted as others want it, or they would write it in turn for ever.
    shared = [one for one in before.objects if "headrace.dev/shared" in one["metadata"]["labels"]]
    assert [one for one in shared if one not in after.objects] == []


def test_one_that_never_made_sense_has_nothing() -> None:
    assert remaining([], addressed=False).objects == ()


def test_one_that_has_made_sense_keeps_a_receive_that_it_shares() -> None:
    assert "Service knative-eventing/headrace-receive" in called(remaining([], addressed=True))


def test_while_consumers_are_out_of_reach_a_shared_forward_stays_wanted() -> None:
    settings = {"isolation": "shared"}

    assert called(wanted(settings=settings, reached=False)) == called(wanted(entry(), settings=settings))


def by_name(objects: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{one['kind']} {one['metadata']['name']}": one for one in objects}


def as_the_server_has_it(one: dict[str, Any]) -> dict[str, Any]:
    """With what servers and others add."""
    metadata = {
        **one["metadata"],
        "uid": "u",
        "resourceVersion": "7",
        "managedFields": [{}],
        "ownerReferences": [{}],
        "labels": {**one["metadata"]["labels"], "headrace.dev/channel-uid": "u"},
        "annotations": {
            **one["metadata"].get("annotations", {}),
            "serving.knative.dev/creator": "operator",
            "headrace.dev/applied": "digest",
        },
    }
    added = {"replicas": 3, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "traffic": [{"percent": 100}]}
    return {**one, "metadata": metadata, "spec": {**one["spec"], **added}, "status": {"x": 1}}


def test_what_is_kept_is_wanted_as_it_was_without_what_servers_and_autoscalers_add() -> None:
    settings = {**PLAIN, "keda_monitoring": "nats:8222"}
    objects = wanted(entry(), settings=settings, deploymentSpecTemplate=TEMPLATE).objects

    kept = remaining(map(as_the_server_has_it, objects)).objects

    def plain(one: dict[str, Any]) -> dict[str, Any]:
        return {**one, "metadata": {"annotations": {}, **one["metadata"]}}

    assert by_name(kept) == by_name(map(plain, objects))


def test_what_is_being_deleted_is_not_kept() -> None:
    (one,) = (one for one in wanted(entry()).objects if one["metadata"]["name"].startswith("forward-"))
    going = {**one, "metadata": {**one["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert called(remaining([going])) == called(wanted())


def test_while_consumers_are_out_of_reach_each_forward_stays_as_it_is() -> None:
    before = wanted(entry("a"), entry("b", "mail"))

    after = wanted(entry("a"), observed=before.objects, reached=False)

    assert called(after) == called(before)
