"""The operator makes the functions that the real `reconcile` answers, leaves them alone, and takes them away again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.support.functions.children import IMAGE, deployment_of
from tests.support.functions.functions import Function
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.tenants import Tenant
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
UID = "5d0a2f1c-0000-4000-8000-00000000000a"
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}
FOLDERS = (
    "/api/v1/namespaces/{}/services",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/serving.knative.dev/v1/namespaces/{}/services",
)


@pytest.fixture
def tenant(nats_server: NatsServer, tmp_path: Path) -> Tenant:
    return Tenant(nats_server, tmp_path)


@pytest.fixture
def reconcile(nats_server: NatsServer, tenant: Tenant) -> Iterator[Function]:
    with tenant.asking(nats_server.url, HEADRACE_IMAGE=IMAGE, HEADRACE_HOST_URLS="true") as function:
        yield function


async def there(api: Api, namespace: str) -> dict[str, str]:
    """Names of all objects, with the versions that they have."""
    found = {}
    for folder in FOLDERS:
        for one in (await api.get(folder.format(namespace))).unwrapped()["items"]:
            if one["metadata"]["name"] != "kubernetes":
                found[f"{folder.split('/')[-1]} {one['metadata']['name']}"] = one["metadata"]["resourceVersion"]
    return found


async def make(api: Api, namespace: str, name: str, **annotations: str) -> str:
    spec = {"subscribers": [{"uid": UID, "name": "billing", "generation": 1, "subscriberUri": "http://billing/"}]}
    body: dict[str, Any] = channel(name, spec)
    body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), **NAMESPACED, **annotations}
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, body)).unwrapped()
    return f"{path}/{name}"


@pytest.mark.usefixtures("pods")
async def test_functions_come_stay_and_go(
    operator: Start, api: Api, namespace: str, reconcile: Function, tenant: Tenant
) -> None:
    running = operator(hook=reconcile.url)
    orders, bills = await make(api, namespace, "orders"), await make(api, namespace, "bills")
    with tenant.reconcile(await deployment_of(api, namespace, "own-reconcile")):
        await come_stay_and_go(api, namespace, running, orders, bills)


async def come_stay_and_go(api: Api, namespace: str, running: OperatorProcess, orders: str, bills: str) -> None:
    for name in ("orders", "bills"):
        await until_status(api, namespace, lambda found: ready(found) == "True", name)
    made: dict[str, str] = {}

    async def all_made() -> bool:
        made.clear()
        made.update(await there(api, namespace))
        return len(made) == 9

    await until("receive and reconcile, two channels' Services, two forwards", all_made, 60.0)
    await until("the queue is empty", lambda: running.number("headrace_operator_queue_busy") == 0, 60.0)
    await asyncio.sleep(1.0)
    made = await there(api, namespace)
    await asyncio.sleep(2.0)
    assert await there(api, namespace) == made

    # It makes no sense any more, and keeps what it has.
    (await api.merge(orders, {"metadata": {"annotations": {"headrace.dev/max-scale": "many"}}})).unwrapped()
    await until_status(api, namespace, lambda found: ready(found) == "False", "orders")
    await asyncio.sleep(2.0)
    kept = await there(api, namespace)
    assert kept.keys() == made.keys()
    await asyncio.sleep(2.0)
    assert await there(api, namespace) == kept

    await api.delete(orders)
    await api.gone(orders)
    left = await there(api, namespace)
    assert [name for name in left if "orders" in name] == []
    assert "services headrace-receive" in left
    assert "services bills-kn-jsm-channel" in left

    await api.delete(bills)
    await api.gone(bills)

    async def none_left() -> bool:
        return await there(api, namespace) == {}

    await until("what they shared goes with the last", none_left, 60.0)
