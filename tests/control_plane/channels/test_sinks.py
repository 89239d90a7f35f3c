"""Dead letter sinks by reference, resolved with the rights that the operator's account has as it is installed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.control_plane.conftest import DEFINITIONS, established
from tests.control_plane.kube.test_installed_operator import installed, own_token
from tests.support.functions.functions import Function
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
# A kind that neither Headrace nor Knative has heard of.
PIGEONHOLES: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "pigeonholes.post.example.com"},
    "spec": {
        "group": "post.example.com",
        "scope": "Namespaced",
        "names": {
            "kind": "Pigeonhole",
            "plural": "pigeonholes",
            "singular": "pigeonhole",
            "listKind": "PigeonholeList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
RESOLVER: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "pigeonholes-addressable-resolver", "labels": {"duck.knative.dev/addressable": "true"}},
    "rules": [{"apiGroups": ["post.example.com"], "resources": ["pigeonholes"], "verbs": ["get", "list", "watch"]}],
}
MICE = {
    **PIGEONHOLES,
    "metadata": {"name": "mice.post.example.com"},
    "spec": {
        **PIGEONHOLES["spec"],
        "names": {"kind": "Mouse", "plural": "mice", "singular": "mouse", "listKind": "MouseList"},
    },
}
ADDRESSED: dict[str, Any] = {"status": {"address": {"url": "http://pigeonhole.example/7"}}}


@pytest.fixture
def reconcile(nats_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    with Function("reconcile", nats_server.url, tmp_path) as function:
        yield function


@pytest.fixture
async def pigeonholes(api: Api) -> AsyncIterator[None]:
    """The kind is served; nobody may read it but an admin."""
    (await api.create(DEFINITIONS, PIGEONHOLES)).unwrapped()
    try:
        await established(api, "pigeonholes.post.example.com")
        yield
    finally:
        await api.delete(f"{ROLES}/pigeonholes-addressable-resolver")
        await api.delete(f"{DEFINITIONS}/pigeonholes.post.example.com")


@pytest.fixture
async def mice(api: Api) -> AsyncIterator[None]:
    """A kind whose plural nobody guesses is served, and may be read."""
    role = {**RESOLVER, "rules": [{**RESOLVER["rules"][0], "resources": ["mice"]}]}
    (await api.create(DEFINITIONS, MICE)).unwrapped()
    try:
        (await api.create(ROLES, role)).unwrapped()
        await established(api, "mice.post.example.com")
        yield
    finally:
        await api.delete(f"{ROLES}/pigeonholes-addressable-resolver")
        await api.delete(f"{DEFINITIONS}/mice.post.example.com")


@pytest.fixture
async def installed_operator(
    api: Api, control_plane: ControlPlane, namespace: str, nats_server: NatsServer, reconcile: Function, tmp_path: Path
) -> AsyncIterator[OperatorProcess]:
    """It runs as its own account, of which the API server grants what the manifests say and nothing else."""
    await installed(api)
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"] = [{"name": "admin", "user": {"token": await own_token(api)}}]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    running = OperatorProcess(
        kubeconfig, nats_server.url, reconcile.url, tmp_path, WATCH_NAMESPACE=namespace, POD_NAMESPACE=SYSTEM
    )
    try:
        yield running.start()
    finally:
        running.stop()
        await api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/headrace-operator")


async def with_sink(api: Api, namespace: str, name: str, api_version: str, kind: str) -> None:
    """A channel whose dead letter sink is the object `sink` of that kind."""
    ref = {"apiVersion": api_version, "kind": kind, "name": "sink"}
    body = channel(name, {"delivery": {"deadLetterSink": {"ref": ref}}})
    (await api.create(CHANNELS.format(namespace=namespace), body)).unwrapped()


@pytest.mark.usefixtures("pigeonholes")
async def test_sinks_of_every_kind_whose_role_says_that_it_is_addressable_are_resolved(
    api: Api, namespace: str, installed_operator: OperatorProcess
) -> None:
    core, serving, foreign = (
        f"/api/v1/namespaces/{namespace}/services",
        f"/apis/serving.knative.dev/v1/namespaces/{namespace}/services",
        f"/apis/post.example.com/v1/namespaces/{namespace}/pigeonholes",
    )
    plain = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sink"}, "spec": {"ports": [{"port": 80}]}}
    knative = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "sink"}, "spec": {}}
    about = {"apiVersion": "post.example.com/v1", "kind": "Pigeonhole", "metadata": {"name": "sink"}}
    pigeonhole = {**about, "status": {"address": {"url": "http://pigeonhole.example/7"}}}
    for folder, body in ((core, plain), (serving, knative), (foreign, pigeonhole)):
        (await api.create(folder, body)).unwrapped()
    served = {"status": {"address": {"url": "http://sink.knative.example"}}}
    (await api.merge(f"{serving}/sink/status", served)).unwrapped()

    await with_sink(api, namespace, "plain", "v1", "Service")
    await with_sink(api, namespace, "knative", "serving.knative.dev/v1", "Service")
    await with_sink(api, namespace, "foreign", "post.example.com/v1", "Pigeonhole")

    wanted = {"plain": f"http://sink.{namespace}.svc.cluster.local", "knative": "http://sink.knative.example"}
    for name, uri in wanted.items():
        await until_status(api, namespace, lambda found, uri=uri: found.get("deadLetterSinkUri") == uri, name)
    refused = 'cannot list resource \\"pigeonholes\\"'
    await until("the operator may not read the foreign kind", lambda: refused in installed_operator.log, 60.0)

    (await api.create(ROLES, RESOLVER)).unwrapped()
    url = "http://pigeonhole.example/7"
    await until_status(
        api, namespace, lambda found: found.get("deadLetterSinkUri") == url and ready(found) == "True", "foreign"
    )


@pytest.mark.usefixtures("mice", "installed_operator")
async def test_a_sink_is_found_whatever_the_plural_of_its_kind_and_of_one_that_is_not_served_it_is_said(
    api: Api, namespace: str
) -> None:
    folder = f"/apis/post.example.com/v1/namespaces/{namespace}/mice"
    mouse = {"apiVersion": "post.example.com/v1", "kind": "Mouse", "metadata": {"name": "sink"}}
    (await api.create(folder, mouse)).unwrapped()

    await with_sink(api, namespace, "mouse", "post.example.com/v1", "Mouse")
    await with_sink(api, namespace, "cat", "post.example.com/v1", "Cat")
    await with_sink(api, namespace, "dog", "kennel.example.com/v1", "Dog")

    for name in ("cat", "dog"):
        await until_status(api, namespace, lambda found: reason(found) == "DeadLetterSinkKindNotServed", name)
    await until_status(api, namespace, lambda found: reason(found) == "DeadLetterSinkNotAddressable", "mouse")
    # A change of it is told, too.
    (await api.merge(f"{folder}/sink", ADDRESSED)).unwrapped()
    url = ADDRESSED["status"]["address"]["url"]
    await until_status(api, namespace, lambda found: found.get("deadLetterSinkUri") == url, "mouse")


def reason(status: dict[str, Any]) -> str:
    conditions = status.get("conditions") or ()
    return next((one.get("reason", "") for one in conditions if one["type"] == "DeadLetterSinkResolved"), "")
