"""Knative Eventing's own controller and webhook beside a real API server: their manifests applied, both as processes.

No pods run here: the webhook's Service leads to the loopback, and either process acts as the service account that it
has in a cluster, with that account's rights and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.programs import neighbour_binaries
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import Api
from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running
from tests.support.waiting import until

NAMESPACE = "knative-eventing"
START_SECONDS = 180.0
FOLDERS = (".", "roles", "configmaps", "resources", "webhooks")
# What the controller would start pods from; here it never does.
IMAGES = (
    "APISERVER_RA",
    "AUTH_PROXY",
    "EVENT_TRANSFORM_JSONATA",
    "INTEGRATION_SOURCE_TIMER",
    "INTEGRATION_SOURCE_AWS_S3",
    "INTEGRATION_SOURCE_AWS_SQS",
    "INTEGRATION_SOURCE_AWS_DDB_STREAMS",
    "INTEGRATION_SINK_LOG",
    "INTEGRATION_SINK_AWS_S3",
    "INTEGRATION_SINK_AWS_SQS",
    "INTEGRATION_SINK_AWS_SNS",
)
PLACES = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}


async def begin(control_plane: ControlPlane, api: Api, directory: Path) -> list[Running]:
    """Have both at work on a control plane without any of Knative's kinds; whoever calls ends them by `kill`.

    The webhook would drain for 45 s, as is right for one that has a successor.
    """
    port = free_port()
    for body in _manifests(port):
        await apply(api, body)
    processes: list[Running] = []
    try:
        processes.append(_started("controller", control_plane, directory, {}))
        processes.append(_started("webhook", control_plane, directory, {"WEBHOOK_PORT": str(port)}))
        await until("the webhook refuses what is wrong", lambda: _admits(api), START_SECONDS)
        await until("the controller leads", lambda: _leads(api), START_SECONDS)
    except BaseException as error:
        for process in processes:
            error.add_note(f"the log of {process.name} ends:\n{process.log[-3000:]}")
            process.kill()
        raise
    return processes


async def apply(api: Api, body: Mapping[str, Any]) -> None:
    """Server-side apply of one of the kinds that a manifest of an installation has."""
    place = PLACES[body["kind"]].format(namespace=body["metadata"].get("namespace"))
    (await api.apply(f"{place}/{body['metadata']['name']}", body, manager="tests", force=True)).unwrapped()


def _manifests(port: int) -> Iterator[dict[str, Any]]:
    folder = neighbour_binaries.manifests()
    for part in FOLDERS:
        for path in sorted((folder / part).glob("*.yaml")):
            for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if body:
                    yield _served_here(body, port)
    metadata = {"name": "eventing-webhook", "namespace": NAMESPACE}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _served_here(body: dict[str, Any], port: int) -> dict[str, Any]:
    """Without a cluster's DNS the API server finds the webhook by its port alone."""
    for webhook in body.get("webhooks") or ():
        webhook["clientConfig"]["service"]["port"] = port
    if body["kind"] == "CustomResourceDefinition":
        client = (body["spec"].get("conversion") or {}).get("webhook", {}).get("clientConfig", {})
        if "service" in client:
            client["service"]["port"] = port
    return body


def _started(program: str, control_plane: ControlPlane, directory: Path, more: Mapping[str, str]) -> Running:
    name = f"eventing-{program}"
    config = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"]["as"] = f"system:serviceaccount:{NAMESPACE}:{name}"
    kubeconfig = directory / f"kubeconfig-{program}"
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    environment = {
        "SYSTEM_NAMESPACE": NAMESPACE,
        "CONFIG_LOGGING_NAME": "config-logging",
        "CONFIG_OBSERVABILITY_NAME": "config-observability",
        "METRICS_DOMAIN": "knative.dev/eventing",
        "WEBHOOK_NAME": "eventing-webhook",
        "POD_NAME": f"{name}-0",
        "PROFILING_PORT": str(free_port()),
        "KUBECONFIG": str(kubeconfig),
        "SINK_BINDING_SELECTION_MODE": "exclusion",
        **{f"{image}_IMAGE": "nobody/runs-this" for image in IMAGES},
        **more,
    }
    command = [neighbour_binaries.found()[name]]
    return Running(name, command, free_port(), directory, environment, inherit=False)


async def _admits(api: Api) -> bool:
    """Has it put its rules and its certificate into place, and does it answer by them?"""
    kind = PLACES["MutatingWebhookConfiguration"]
    found = (await api.get(f"{kind}/webhook.eventing.knative.dev")).unwrapped()
    if not all(one.get("rules") and one["clientConfig"].get("caBundle") for one in found["webhooks"]):
        return False
    probe = {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": "probe"},
        "spec": {"channel": {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "Any", "name": "any"}},
    }
    path = f"/apis/messaging.knative.dev/v1/namespaces/{NAMESPACE}/subscriptions"
    # It has no subscriber, which only the webhook knows to be wrong.
    answer = await api.create(path, probe, dry=True)
    return answer.status == 400 and "subscriber" in answer.message


async def _leads(api: Api) -> bool:
    found = await api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")
    return any("subscription" in one["metadata"]["name"] for one in found.unwrapped()["items"])
