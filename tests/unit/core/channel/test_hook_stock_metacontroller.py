"""The requests of a stock Metacontroller, and their answers, which hold less than our operator can make."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.channel import related
from headrace.core.channel.hook import HookRequest
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.reconcile import reconcile
from tests.support.functions.channels import channel, entry
from tests.unit.reconcile.test_story import NOON, FakeNats, reasons

SETTINGS = {"image": "registry.example/headrace:1", "service_account": "headrace-functions"}
SERVICES, DEPLOYMENTS = "Service.v1", "Deployment.apps/v1"
SERVING = {"apiVersion": "serving.knative.dev/v1", "resource": "services"}


def controller(*more: dict[str, str]) -> dict[str, Any]:
    """As Go writes a CompositeController: without kind and apiVersion, and with what is empty."""
    rules = [{"apiVersion": "v1", "resource": "services"}, {"apiVersion": "apps/v1", "resource": "deployments"}, *more]
    return {
        "metadata": {"name": "headrace", "creationTimestamp": None},
        "spec": {"childResources": rules, "generateSelector": True},
        "status": {},
    }


async def answered(
    *more: dict[str, str], asks: dict[str, Any] | None = None, settings: dict[str, Any] | None = None, **parts: Any
) -> dict[str, Any]:
    """The answer to sync, for a channel with one subscriber.

    Args:
        more: child kinds beside Services and Deployments.
    """
    body = {
        "controller": controller(*more) if asks is None else asks,
        "parent": channel(entry(), **parts),
        "children": {SERVICES: {}, DEPLOYMENTS: {}},
        "related": {"Subscription.messaging.knative.dev/v1": {}},
        "finalizing": False,
    }
    given = ReconcileSettings(**{**SETTINGS, **(settings or {})})
    return await reconcile("sync", json.dumps(body).encode(), api=FakeNats(), settings=given, now=NOON)


def found(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((one["kind"], one["metadata"]["labels"]["app.kubernetes.io/component"]) for one in answer["children"])


WHOLE = [
    ("Deployment", "forward"),
    ("Deployment", "receive"),
    ("Service", "channel"),
    ("Service", "forward"),
    ("Service", "receive"),
]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="by default"),
        pytest.param({"settings": {"isolation": "shared"}}, id="though leases are to be opened on one for all"),
        pytest.param({"annotations": {"headrace.dev/isolation": "shared"}}, id="though the channel wishes that"),
    ],
)
async def test_a_channel_has_all_of_its_own_in_its_own_namespace(given: dict[str, Any]) -> None:
    one, other = await answered(**given), await answered(name="bills", **given)

    assert found(one) == WHOLE
    assert {each["metadata"]["namespace"] for each in one["children"]} == {"shop"}
    assert not [each for each in one["children"] if "headrace.dev/shared" in each["metadata"]["labels"]]
    names, others = ({each["metadata"]["name"] for each in answer["children"]} for answer in (one, other))
    assert not names & others
    assert one["status"]["consumers"][0]["pulls"] is True
    # They are not there yet.
    assert reasons(one)["Ready"] == "FunctionsStarting"


async def test_with_credentials_of_the_namespace_not_even_their_reconcile_is_shared() -> None:
    scope = {"eventing.knative.dev/scope": "namespace"}
    one, other = await answered(annotations=scope), await answered(name="bills", annotations=scope)

    assert found(one) == sorted([*WHOLE, ("Deployment", "own-reconcile"), ("Service", "own-reconcile")])
    assert not [each for each in one["children"] if "headrace.dev/shared" in each["metadata"]["labels"]]
    names, others = ({each["metadata"]["name"] for each in answer["children"]} for answer in (one, other))
    assert not names & others


async def test_our_operator_which_sends_no_controller_gets_what_channels_share() -> None:
    answer = await answered(asks={})

    assert {each["metadata"]["namespace"] for each in answer["children"]} == {"shop", "knative-eventing"}


async def test_a_knative_service_is_answered_where_it_may_be_a_child_and_forward_still_pulls_by_itself() -> None:
    answer = await answered(SERVING)

    kinds = {
        (one["apiVersion"], one["metadata"]["labels"]["app.kubernetes.io/component"]) for one in answer["children"]
    }
    assert kinds == {("serving.knative.dev/v1", "receive"), ("apps/v1", "forward"), ("v1", "forward")}
    assert answer["status"]["consumers"][0]["pulls"] is True


async def test_keda_scales_forward_where_it_may_be_a_child() -> None:
    keda = {"apiVersion": "keda.sh/v1alpha1", "resource": "scaledobjects"}

    answer = await answered(keda, settings={"keda_monitoring": "nats:8222"})

    assert found(answer) == sorted([*WHOLE, ("ScaledObject", "forward")])


async def test_what_may_be_no_child_is_told_of() -> None:
    answer = await answered(annotations={"headrace.dev/runtime": "knative"})

    assert reasons(answer)["ServingInstalled"] == "ServingNotInstalled"


@pytest.mark.parametrize("spec", [None, [], {}, {"childResources": None}, {"childResources": [None, 1, {}]}])
def test_a_controller_of_another_form_says_nothing_of_child_kinds(spec: Any) -> None:
    body = {"controller": {"spec": spec}, "parent": channel(), "headrace": {"apis": ["serving.knative.dev/v1"]}}

    request = HookRequest.from_json(json.dumps(body).encode())

    assert (request.stock, request.apis) == (True, frozenset())


@pytest.mark.parametrize("sent", [None, {}, [], "x", 1])
def test_without_a_controller_it_is_our_operator_that_asks(sent: Any) -> None:
    assert not HookRequest.from_json(json.dumps({"controller": sent, "parent": channel()}).encode()).stock


@pytest.mark.parametrize(
    ("namespace", "rule"),
    [
        pytest.param("shop", {}, id="of its own namespace, all of the kind"),
        pytest.param("ops", {"names": ["dead"]}, id="of another one"),
    ],
)
def test_what_is_asked_for_beside_a_channel_is_good_for_all_channels_of_its_name(
    namespace: str, rule: dict[str, Any]
) -> None:
    ref = {"apiVersion": "v1", "kind": "Service", "name": "dead", "namespace": namespace}

    _, asked = related.rules(channel(delivery={"deadLetterSink": {"ref": ref}}), stock=True)

    assert asked.to_json() == {"apiVersion": "v1", "resource": "services", **rule}
