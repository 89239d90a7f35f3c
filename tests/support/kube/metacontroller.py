"""A stock Metacontroller beside a real API server, in the place of our operator.

It is as its manifests and our overlay have it, and acts as its service account, with that account's rights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.programs import neighbour_binaries
from tests.support.functions.functions import TOKEN
from tests.support.kube import eventing
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import INFRA, in_file, path_of
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running
from tests.support.waiting import until

NAMESPACE = "metacontroller"
FINALIZER = "metacontroller.io/compositecontroller-headrace"
FILES = ("metacontroller-namespace.yaml", "metacontroller-rbac.yaml", "metacontroller-crds-v1.yaml")
CONTROLLERS = "/apis/metacontroller.k8s.io/v1alpha1/compositecontrollers"
OVERLAY = INFRA / "overlays" / "metacontroller" / "compositecontroller.yaml"
IN_THE_CLUSTER = "TOKEN@headrace-reconcile.knative-eventing.svc/"


async def begin(control_plane: ControlPlane, api: Api, hook: str, directory: Path) -> Running:
    """Have it ask the hook; whoever calls ends it by `kill`.

    Args:
        hook: base URL of `reconcile`.
    """
    for body in _manifests():
        await eventing.apply(api, body)

    async def serves() -> bool:
        return (await api.get(CONTROLLERS)).accepted

    await until("the API server serves Metacontroller's kinds", serves, 60.0)
    for body in in_file(OVERLAY):
        (await api.apply(path_of(body), _asking(body, hook), manager="tests", strict=True)).unwrapped()
    return _started(control_plane, directory)


def passes(process: Running, namespace: str, name: str) -> int:
    """How often it has looked at a channel, as its log tells."""
    return len(re.findall(rf'"Sync" parent_kind="NatsJetStreamChannel" object="{namespace}/{name}"', process.log))


async def forsake_all(api: Api) -> None:
    """Whatever channels others have left go, with nobody asked; and nobody makes them anew."""
    for namespace in (await api.get("/api/v1/namespaces")).unwrapped()["items"]:
        if namespace["metadata"]["name"].startswith("test-"):
            await api.delete(f"/api/v1/namespaces/{namespace['metadata']['name']}")
    everywhere = CHANNELS.replace("/namespaces/{namespace}", "")

    async def none_is_left() -> bool:
        answer = await api.get(everywhere)
        if not answer.accepted:
            # The kind is that new.
            return False
        found = answer.body["items"]
        for one in found:
            place = f"{CHANNELS.format(namespace=one['metadata']['namespace'])}/{one['metadata']['name']}"
            await api.delete(place)
            await api.merge(place, {"metadata": {"finalizers": []}})
        return not found

    await until("no channel is left", none_is_left, 60.0)


def _manifests() -> Iterator[dict[str, Any]]:
    folder = neighbour_binaries.metacontroller_manifests()
    for file in FILES:
        yield from in_file(folder / file)


def _asking(body: dict[str, Any], hook: str) -> dict[str, Any]:
    """As it is in the overlay, with the token, and with `reconcile` where it is here."""
    for one in body["spec"]["hooks"].values():
        url = one["webhook"]["url"]
        assert url.count(IN_THE_CLUSTER) == 1, url
        one["webhook"]["url"] = url.replace(IN_THE_CLUSTER, f"{TOKEN}@{hook.removeprefix('http://')}/")
    return body


def _started(control_plane: ControlPlane, directory: Path) -> Running:
    config = json.loads(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"]["as"] = f"system:serviceaccount:{NAMESPACE}:metacontroller"
    kubeconfig = directory / "kubeconfig-metacontroller"
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    port = free_port()
    command: list[str | Path] = [
        neighbour_binaries.found()["metacontroller"],
        "--logtostderr",
        "-v=4",
        "--discovery-interval=20s",
        f"--debug-addr=127.0.0.1:{port}",
        # Several workers share a map of watches without a lock, and in Go that may be the end of the process.
        "--workers=1",
        # 5 requests a second, its own default, would be most of what is waited for.
        "--client-go-qps=100",
        "--client-go-burst=100",
    ]
    environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(directory)}
    return Running("metacontroller", command, port, directory, environment, inherit=False)
