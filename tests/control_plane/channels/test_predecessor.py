"""Leftovers of an installation of another kind: they go once the present hook has answered, and nothing else goes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace_operator.channels import predecessor
from headrace_operator.channels.predecessor import Predecessor
from headrace_operator.kube import access
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.kinds import Discovery
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import INFRA, in_file
from tests.support.kube.kube_api import Api

PLAIN = INFRA / "overlays/deployment/reconcile.yaml"
NAMED = (
    "Deployment.apps/v1/headrace-reconcile Service.v1/headrace-reconcile "
    "Service.serving.knative.dev/v1/headrace-reconcile Nothing.not.served/v1/headrace-reconcile"
)
PATHS = ("/apis/apps/v1/namespaces/{}/deployments", "/api/v1/namespaces/{}/services")


async def left_there(api: Api, namespace: str, **metadata: Any) -> None:
    """The `reconcile` of an installation without Knative Serving."""
    for path, body in zip(PATHS, in_file(PLAIN), strict=True):
        body["metadata"] |= {"namespace": namespace, **metadata}
        (await api.create(path.format(namespace), body)).unwrapped()


async def names(api: Api, namespace: str) -> list[str]:
    lists = [(await api.get(path.format(namespace))).unwrapped()["items"] for path in PATHS]
    return [one["metadata"]["name"] for found in lists for one in found]


class Hook:
    """Answers once it has failed of all these."""

    def __init__(self, *failures: HeadraceError) -> None:
        self.asked = 0
        self._failures = list(failures)

    async def __call__(self) -> None:
        self.asked += 1
        if self._failures:
            raise self._failures.pop(0)


async def clean_up(control_plane: ControlPlane, namespace: str, hook: Hook) -> None:
    async with KubeApi(lambda: access.from_kubeconfig(control_plane.kubeconfig)) as api:
        discovery = Discovery(api)
        await discovery.refresh()
        one = Predecessor(api, discovery, namespace, tuple(predecessor.named(NAMED)), hook, pause=0.01)
        async with asyncio.timeout(30):
            await one.run()


async def test_it_goes_once_the_hook_has_answered(control_plane: ControlPlane, api: Api, namespace: str) -> None:
    await left_there(api, namespace)
    hook = Hook(
        Unavailable("reconcile starts"),
        Refused("the gateway does not know it yet", status=404),
        Misconfigured("the token is being written", field="HEADRACE_TOKEN_FILE"),
    )

    await clean_up(control_plane, namespace, hook)

    assert hook.asked == 4
    assert await names(api, namespace) == []


@pytest.mark.parametrize("owned", [True, False], ids=["what an object owns, as a Route its Service", "another's"])
async def test_what_is_not_of_an_installation_of_ours_stays(
    control_plane: ControlPlane, api: Api, namespace: str, owned: bool
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    owner = (await api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)).unwrapped()
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    await left_there(api, namespace, **({"ownerReferences": [reference]} if owned else {"labels": {"app": "mine"}}))
    hook = Hook()

    await clean_up(control_plane, namespace, hook)

    assert await names(api, namespace) == ["headrace-reconcile", "headrace-reconcile"]
    # Nobody is woken for nothing.
    assert hook.asked == 0
