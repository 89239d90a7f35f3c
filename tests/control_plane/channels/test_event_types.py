"""With Knative's flag each new kind of events gets an EventType at a real API server, as Knative's channels make it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.caller_token import delivery_key
from headrace_operator.channels import event_type
from tests.control_plane.channels.test_channels import create, read, ready, until_status
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, send
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
TYPES = "/apis/eventing.knative.dev/v1beta3/namespaces/{namespace}/eventtypes"
CONFIG_MAPS = f"/api/v1/namespaces/{SYSTEM}/configmaps"


@pytest.fixture
def reconcile(nats_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    with Function("reconcile", nats_server.url, tmp_path) as function:
        yield function


@pytest.fixture
def mount(tmp_path: Path) -> Mounted:
    """The document of that namespace; `test_security_document.py` has the operator write it."""
    return Mounted(tmp_path / "security")


@pytest.fixture
def receive(nats_server: NatsServer, namespace: str, mount: Mounted, tmp_path: Path) -> Iterator[Function]:
    """A namespace's own `receive`."""
    with Function(
        "receive",
        nats_server.url,
        tmp_path,
        HEADRACE_SECURITY_DIR=str(mount.directory),
        HEADRACE_SECURITY_PLACE=namespace,
        HEADRACE_DELIVERY_KEY=delivery_key(TOKEN.encode(), namespace),
    ) as function:
        yield function


@pytest.fixture
async def features(api: Api) -> AsyncIterator[str]:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    assert (await api.create("/api/v1/namespaces", namespace)).status in (201, 409)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config-features"}, "data": {}}
    (await api.create(CONFIG_MAPS, body)).unwrapped()
    yield f"{CONFIG_MAPS}/config-features"
    await api.delete(f"{CONFIG_MAPS}/config-features")


async def test_an_event_type_is_made_for_each_kind_while_the_flag_asks_for_it(
    operator: Start, api: Api, namespace: str, reconcile: Function, receive: Function, mount: Mounted, features: str
) -> None:
    numbers = iter(range(1000))

    async def post(type_: str, source: str = "/shop") -> None:
        kind = {"ce-type": type_, "ce-source": source, "ce-id": str(next(numbers))}
        assert (await send(f"{receive.url}/{namespace}/orders", b"{}", BINARY | kind)).status == 202

    async def served() -> bool:
        # For a moment after a kind is there its storage is not.
        return (await api.get(TYPES.format(namespace=namespace))).status != 429

    async def made() -> list[dict[str, Any]]:
        return list((await api.get(TYPES.format(namespace=namespace))).unwrapped()["items"])

    async def kinds() -> list[tuple[str, str]]:
        told = [event_type.told(one) for one in await made()]
        return sorted((one[1], one[2]) for one in told if one is not None)

    async def until_made(*wanted: tuple[str, str]) -> None:
        async def is_so() -> bool:
            await post("before")
            return await kinds() == sorted(wanted)

        await until(f"there are EventTypes for {wanted}", is_so, 60.0)

    running = operator(hook=reconcile.url)
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await post("before")
    await until("EventTypes are served", served, 30.0)
    assert await made() == []

    (await api.merge(features, {"data": {"eventtype-auto-create": "enabled"}})).unwrapped()
    mount.flag(auto_create_types=True)
    await until_made(("before", "/shop"))
    for _ in range(3):
        await post("order.paid")
        await post("order.paid", "/web")
    await until_made(("before", "/shop"), ("order.paid", "/shop"), ("order.paid", "/web"))
    channel = await read(api, namespace)
    one = next(each for each in await made() if event_type.told(each) == ((namespace, "orders"), "order.paid", "/web"))
    owner = {key: channel["metadata"][key] for key in ("name", "uid")}
    assert one["metadata"]["ownerReferences"] == [
        {"apiVersion": channel["apiVersion"], "kind": channel["kind"], **owner}
    ]
    assert one["metadata"]["name"].startswith("et-orders-")
    assert running.number('headrace_operator_event_types_total{outcome="made"}') == 3.0

    (await api.merge(features, {"data": {"eventtype-auto-create": "disabled"}})).unwrapped()
    await until("the operator watches no EventTypes", lambda: "no EventType is made any more" in running.log, 30.0)
    await post("order.late")
    assert len(await made()) == 3
