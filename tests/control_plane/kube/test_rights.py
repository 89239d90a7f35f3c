"""An operator with the rights that it is installed with, and channels whose functions are in their own namespace."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.control_plane.kube.test_installed_operator import installed, own_token
from tests.control_plane.kube.test_rbac import BINDINGS, FUNCTIONS_ROLE, let_make_functions
from tests.support.functions.children import IMAGE, deployment_of
from tests.support.functions.functions import Function
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer

Start = Callable[[Function], OperatorProcess]
SETTINGS = {"HEADRACE_IMAGE": IMAGE, "HEADRACE_RUNTIME": "deployment", "SYSTEM_NAMESPACE": SYSTEM}
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}


@pytest.fixture
async def start(
    api: Api, control_plane: ControlPlane, namespace: str, nats_server: NatsServer, tmp_path: Path
) -> AsyncIterator[Start]:
    """An operator of the test's namespace, as its own account."""
    await installed(api)
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"] = [{"name": "admin", "user": {"token": await own_token(api)}}]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    started: list[OperatorProcess] = []

    def started_with(reconcile: Function) -> OperatorProcess:
        told = {"WATCH_NAMESPACE": namespace, "POD_NAMESPACE": SYSTEM}
        started.append(OperatorProcess(kubeconfig, nats_server.url, reconcile.url, tmp_path, **told))
        return started[0].start()

    yield started_with
    for one in started:
        one.stop()
    await api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/headrace-operator")


async def make(api: Api, namespace: str, **annotations: str) -> str:
    path = CHANNELS.format(namespace=namespace)
    body = channel("orders", {"subscribers": []})
    body["metadata"]["annotations"] = annotations
    (await api.create(path, body)).unwrapped()
    return f"{path}/orders"


def told(status: dict[str, Any], name: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions") or () if one["type"] == name), {})


async def test_without_the_binding_the_status_has_the_line_that_makes_it_and_with_it_the_functions_are_made(
    api: Api, namespace: str, start: Start, nats_server: NatsServer, tmp_path: Path
) -> None:
    line = (
        f"kubectl -n {namespace} create rolebinding {FUNCTIONS_ROLE} --clusterrole={FUNCTIONS_ROLE} "
        f"--serviceaccount={SYSTEM}:headrace-operator"
    )
    # Nobody runs the `reconcile` of its namespace here, so it has to be waited for.
    with Function("reconcile", nats_server.url, tmp_path, **SETTINGS, RECONCILE_ORPHAN_GRACE="3s") as reconcile:
        start(reconcile)
        place = await make(api, namespace, **NAMESPACED)

        await until_status(api, namespace, lambda found: line in told(found, "Ready").get("message", ""))
        assert (await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")).unwrapped()["items"] == []

        await let_make_functions(api, namespace)
        await deployment_of(api, namespace, "own-reconcile")
        await until_status(api, namespace, lambda found: line not in json.dumps(found))

        # Rights are taken away again: the channel may go all the same, and Kubernetes deletes what it owns.
        await api.delete(f"{BINDINGS.format(namespace)}/{FUNCTIONS_ROLE}")
        await api.delete(place)

        await api.gone(place, 90.0)


async def test_what_runs_for_the_whole_cluster_needs_no_binding(
    api: Api, namespace: str, start: Start, nats_server: NatsServer, tmp_path: Path
) -> None:
    with Function("reconcile", nats_server.url, tmp_path, **SETTINGS) as reconcile:
        start(reconcile)
        await make(api, namespace)

        await until_status(api, namespace, lambda found: told(found, "FunctionsReady") != {})
        await deployment_of(api, SYSTEM, "receive")
        found = (await api.get(f"{CHANNELS.format(namespace=namespace)}/orders")).unwrapped()["status"]

    assert told(found, "RightsGranted") == {}, found
    assert ready(found) != "False"
