"""The functions that `reconcile` answers are taken by a real API server, and settle there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.functions.channels import entry
from tests.support.functions.children import remaining, the, wanted
from tests.support.kube.kube_api import Answer, Api

SYSTEM = "knative-eventing"
PLURALS = {
    "Service.v1": "/api/v1/namespaces/{}/services/",
    "ServiceAccount.v1": "/api/v1/namespaces/{}/serviceaccounts/",
    "Deployment.apps/v1": "/apis/apps/v1/namespaces/{}/deployments/",
    "Service.serving.knative.dev/v1": "/apis/serving.knative.dev/v1/namespaces/{}/services/",
    "ScaledObject.keda.sh/v1alpha1": "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects/",
}
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}
TEMPLATE = {
    "annotations": {"note": "a"},
    "labels": {"team": "a"},
    "nodeSelector": {"disk": "ssd"},
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}
            ]
        }
    },
    "resources": {"limits": {"memory": "1Gi", "cpu": 2}, "requests": {"cpu": "50m"}},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "priorityClassName": "high",
    "imagePullSecrets": [{"name": "registry"}],
}
PLAIN = {"runtime": "deployment", "keda_monitoring": "nats:8222", "service_account": "runner"}


def path(one: dict[str, Any]) -> str:
    folder = PLURALS[f"{one['kind']}.{one['apiVersion']}"].format(one["metadata"]["namespace"])
    return folder + str(one["metadata"]["name"])


async def applied(api: Api, one: dict[str, Any], *, dry: bool = False) -> Answer:
    return await api.apply(path(one), one, manager="headrace", force=True, strict=True, dry=dry)


@pytest.fixture(autouse=True)
async def system_namespace(api: Api) -> None:
    """There, if it was not."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    assert (await api.create("/api/v1/namespaces", body)).status in (201, 409)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="knative"),
        pytest.param({"settings": {"isolation": "shared", "zero_initial_scale": True}}, id="knative, shared"),
        pytest.param(
            {"annotations": NAMESPACED, "deploymentSpecTemplate": TEMPLATE}, id="knative, with wishes for the pods"
        ),
        pytest.param({"settings": {"creds_secret": "nats-user"}, "annotations": NAMESPACED}, id="credentials"),
        pytest.param({"settings": PLAIN}, id="deployment, with KEDA"),
        pytest.param({"settings": {**PLAIN, "isolation": "shared"}}, id="deployment, shared"),
        pytest.param(
            {"settings": PLAIN, "annotations": NAMESPACED, "deploymentSpecTemplate": TEMPLATE},
            id="deployment, with wishes",
        ),
        pytest.param(
            {"settings": PLAIN, "deploymentSpecTemplate": {"resources": {"limits": {"cpu": 9}}}},
            id="deployment, with wishes beyond the bounds",
        ),
        pytest.param({"settings": PLAIN, "annotations": NAMESPACED}, id="deployment, in the channel's namespace"),
    ],
)
async def test_every_child_is_taken(api: Api, namespace: str, given: dict[str, Any]) -> None:
    functions = wanted(entry(), entry("bbbb-2", "mail", delivery={"timeout": "PT9M"}), namespace=namespace, **given)

    for one in functions.objects:
        answer = await applied(api, one, dry=True)
        assert answer.accepted, f"{path(one)}: {answer.message}"
        assert answer.warnings == ()


@pytest.mark.parametrize("name", ["a", "a" * 63, "a.b.c", "7-up", "a--b", "a" * 200, "0.0"])
@pytest.mark.parametrize("runtime", ["knative", "deployment"])
async def test_names_of_every_shape_are_taken(api: Api, namespace: str, name: str, runtime: str) -> None:
    functions = wanted(entry(name=name), namespace=namespace, name=name, settings={"runtime": runtime})

    for one in functions.objects:
        answer = await applied(api, one, dry=True)
        assert answer.accepted, f"{path(one)}: {answer.message}"


async def test_the_stand_in_for_knative_refuses_what_knative_refuses(api: Api, namespace: str) -> None:
    """Or that children are taken would say little of the real one."""
    body = the(
        wanted(entry(), namespace=namespace, annotations=NAMESPACED), "Service.serving.knative.dev/v1", "forward"
    )
    pods = body["spec"]["template"]
    faults = [
        {**pods, "spec": {**pods["spec"], "terminationGracePeriodSeconds": 60}},
        {**pods, "spec": {**pods["spec"], "timeoutSeconds": 601}},
        {**pods, "spec": {**pods["spec"], "timeoutSeconds": 60, "responseStartTimeoutSeconds": 61}},
        {**pods, "metadata": {**pods["metadata"], "annotations": {"autoscaling.knative.dev/window": "2h"}}},
        {**pods, "metadata": {**pods["metadata"], "annotations": {"autoscaling.knative.dev/maxscale": "1"}}},
    ]

    answers = [await applied(api, {**body, "spec": {"template": fault}}, dry=True) for fault in faults]

    assert [answer.accepted for answer in answers] == [False] * len(faults)
    assert (await applied(api, body, dry=True)).accepted


@pytest.mark.parametrize("runtime", ["knative", "deployment"])
async def test_what_was_applied_is_not_changed_by_being_applied_or_kept(api: Api, namespace: str, runtime: str) -> None:
    settings = {**PLAIN, "runtime": runtime}
    functions = wanted(entry(), namespace=namespace, annotations=NAMESPACED, settings=settings)

    first = [(await applied(api, one)).unwrapped() for one in functions.objects]
    again = [(await applied(api, one)).unwrapped() for one in functions.objects]
    held = remaining(first, namespace=namespace, settings=settings, **NAMESPACED)
    kept = [(await applied(api, one)).unwrapped() for one in held.objects]
    after = [(await applied(api, one)).unwrapped() for one in functions.objects]

    def versions(objects: list[dict[str, Any]]) -> set[tuple[str, int | None, str]]:
        return {(path(one), one["metadata"].get("generation"), str(one.get("spec"))) for one in objects}

    assert [one["metadata"]["resourceVersion"] for one in again] == [
        one["metadata"]["resourceVersion"] for one in first
    ]
    assert versions(kept) == versions(first)
    assert versions(after) == versions(first)
