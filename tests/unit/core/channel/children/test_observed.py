"""Facts that are read off objects: whether they work, and how they can be wanted once more as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.functions.channels import entry
from tests.support.functions.children import called, remaining, wanted

PLAIN = {"runtime": "deployment"}
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}
TEMPLATE = {"resources": {"limits": {"cpu": 1}}}


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

    after = remaining(objects, entry(), settings=settings, **annotations)

    assert called(after) == called(before)
    # The operator goes on opening leases where it did.
    assert after.forwards == before.forwards
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
