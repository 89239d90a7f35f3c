"""End to end: a channel is applied, an event is POSTed to `receive`, and `forward`, woken by the operator, delivers it.

Real are the API server, the nats-server, the operator and the three functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
UID = "5d0a2f1c-0000-4000-8000-00000000000a"


@pytest.fixture
def functions(nats_server: NatsServer, tmp_path: Path) -> Iterator[dict[str, Function]]:
    """Running."""
    found = {
        "receive": Function("receive", nats_server.url, tmp_path),
        "forward": Function("forward", nats_server.url, tmp_path),
        "reconcile": Function("reconcile", nats_server.url, tmp_path),
    }
    try:
        for function in found.values():
            function.start()
        yield found
    finally:
        for function in found.values():
            function.stop()


async def post(receive: Function, namespace: str, event: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": event, "ce-source": "/test", "ce-type": "order"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{receive.url}/{namespace}/orders", data=b"{}", headers=headers) as answer,
    ):
        assert answer.status == 202, await answer.text()


def subscribed(place: Place) -> dict[str, object]:
    return {"subscribers": [{"uid": UID, "name": "billing", "generation": 1, "subscriberUri": place.uri}]}


async def test_an_event_reaches_the_subscriber_of_a_channel_that_was_applied(
    operator: Start,
    api: Api,
    namespace: str,
    functions: dict[str, Function],
    subscriber: Subscriber,
    nats_server: NatsServer,
) -> None:
    place = subscriber.place()
    urls = {"hook": functions["reconcile"].url, "FORWARD_URL": functions["forward"].url}
    running = operator(**urls, OPERATOR_SWEEP="60s")
    path = CHANNELS.format(namespace=namespace)
    manifest = channel("orders", subscribed(place))
    (await api.apply(f"{path}/orders", manifest, manager="kubectl")).unwrapped()
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await post(functions["receive"], namespace, "first")
    await place.wait(1, 60.0)

    # Killed, and another begins: what came meanwhile is delivered, and nothing twice.
    running.kill()
    await post(functions["receive"], namespace, "second")
    operator(**urls, OPERATOR_SWEEP="60s")
    await place.wait(2, 60.0)
    assert place.ids == ["first", "second"]

    await api.delete(f"{path}/orders")
    await api.gone(f"{path}/orders")
    async with Nats(nats_server.url) as nats:
        assert await nats.client.jetstream().streams_info() == []


async def test_a_stream_that_vanishes_is_made_anew(
    operator: Start,
    api: Api,
    namespace: str,
    functions: dict[str, Function],
    subscriber: Subscriber,
    nats_server: NatsServer,
) -> None:
    place = subscriber.place()
    operator(hook=functions["reconcile"].url, FORWARD_URL=functions["forward"].url, OPERATOR_SWEEP="1s")
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel("orders", subscribed(place)))).unwrapped()
    await until_status(api, namespace, lambda found: ready(found) == "True")
    async with Nats(nats_server.url) as nats:
        jetstream = nats.client.jetstream()
        name = next(one.config.name for one in await jetstream.streams_info() if not one.config.name.endswith("_aside"))

        await jetstream.delete_stream(name)

        async def is_back() -> bool:
            return name in [one.config.name for one in await jetstream.streams_info()]

        await until("the stream is back", is_back, 60.0)
    await asyncio.sleep(0)
    await post(functions["receive"], namespace, "after")
    await place.wait(1, 60.0)


async def test_the_functions_that_reconcile_answers_are_applied_and_those_that_pull_get_no_lease(
    operator: Start,
    api: Api,
    namespace: str,
    functions: dict[str, Function],
    subscriber: Subscriber,
    nats_server: NatsServer,
    tmp_path: Path,
) -> None:
    place = subscriber.place()
    settings = {"HEADRACE_IMAGE": "example.com/headrace@sha256:0", "SYSTEM_NAMESPACE": namespace}
    with Function("reconcile", nats_server.url, tmp_path, **settings) as reconcile:
        # Leases would be opened here, and be served, if any were.
        operator(hook=reconcile.url, FORWARD_URL=functions["forward"].url, OPERATOR_SWEEP="1s")
        path = CHANNELS.format(namespace=namespace)
        annotations = {"headrace.dev/runtime": "deployment"}
        manifest = channel("orders", subscribed(place), annotations=annotations)
        (await api.create(path, manifest)).unwrapped()
        await until_status(api, namespace, lambda found: any(one.get("pulls") for one in found.get("consumers", ())))

        async def kinds(where: str) -> list[str]:
            return [one["metadata"]["name"] for one in (await api.get(where)).unwrapped()["items"]]

        deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        assert any(name.startswith("headrace-receive") for name in await kinds(deployments))
        assert len(await kinds(deployments)) >= 2
        await post(functions["receive"], namespace, "for the one that pulls")
        await asyncio.sleep(3.0)
        assert place.received == []

        await api.delete(f"{path}/orders")
        await api.gone(f"{path}/orders")
        await until_gone(lambda: kinds(deployments))


async def until_gone(names: Callable[[], Awaitable[list[str]]]) -> None:
    async def is_so() -> bool:
        return await names() == []

    await until("all of them are gone", is_so, 60.0)
