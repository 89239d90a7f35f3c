"""A channel with credentials for another NATS account, from its manifest to the last of its objects.

Real are the API server, a nats-server with two accounts, the operator, `reconcile` of the installation and that of the
channel, `receive` and the `forward` that its Deployment describes; the test plays the kubelet and the DNS.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.support.functions.children import IMAGE, deployment_of
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.tenants import INSTALLATION, TENANT, Accounts, Tenant, secret_of
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
UID = "5d0a2f1c-0000-4000-8000-00000000000a"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"


@pytest.fixture
def tenant(server: Accounts, tmp_path: Path) -> Tenant:
    found = Tenant(server, tmp_path)
    found.mount("channel", secret_of(TENANT))
    return found


@asynccontextmanager
async def looking(server: Accounts, user: str) -> AsyncIterator[JetStreamApi]:
    client: Client = Client(NatsSettings.model_validate({"url": server.url_of(user)}))
    try:
        yield JetStreamApi(client)
    finally:
        await client.close()


async def streams(server: Accounts, user: str) -> list[str]:
    async with looking(server, user) as api:
        return sorted([one["config"]["name"] async for one in api.streams()])


async def make(api: Api, namespace: str, place: Place) -> str:
    subscribers = [{"uid": UID, "name": "billing", "generation": 1, "subscriberUri": place.uri}]
    spec = {"subscribers": subscribers, "connection": {"secretRef": {"name": "orders-nats"}}}
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel("orders", spec))).unwrapped()
    return f"{path}/orders"


async def deployments(api: Api, namespace: str) -> list[str]:
    found = (await api.get(DEPLOYMENTS.format(namespace))).unwrapped()["items"]
    return [one["metadata"]["labels"]["app.kubernetes.io/component"] for one in found]


@pytest.mark.usefixtures("pods")
async def test_a_channel_in_another_account_is_served_there_and_goes_from_there(
    operator: Start,
    api: Api,
    namespace: str,
    server: Accounts,
    tenant: Tenant,
    subscriber: Subscriber,
    tmp_path: Path,
) -> None:
    url, place = server.url_of(INSTALLATION), subscriber.place()
    with tenant.asking(url, HEADRACE_IMAGE=IMAGE) as reconcile:
        running = operator(hook=reconcile.url, NATS_URL=url, OPERATOR_SWEEP="1s")
        path = await make(api, namespace, place)
        await until_status(api, namespace, lambda found: reason(found) == "ReconcileUnreachable")
        with tenant.reconcile(await deployment_of(api, namespace, "own-reconcile")):
            await until_status(api, namespace, lambda found: ready(found) == "True" and found.get("elsewhere") is True)
            assert len(await streams(server, TENANT)) == 2
            assert await streams(server, INSTALLATION) == []
            receive = Function("receive", server.url, tmp_path, ready=False, NATS_CREDENTIALS_DIR=str(tenant.root))
            with receive, tenant.function("forward", await deployment_of(api, namespace, "forward")):

                async def stored() -> bool:
                    return (await send(f"{receive.url}/{namespace}/orders", b"{}", BINARY)).status == 202

                await until("an event is stored", stored, 60.0)
                await place.wait(1, 60.0)
            # It is no stream that the operator misses, nor one that it opens leases on.
            assert "no forward is known" not in running.log

            await api.delete(path)
            await api.gone(path)

    assert await streams(server, TENANT) == []

    async def none_left() -> bool:
        return await deployments(api, namespace) == []

    await until("the set is gone", none_left, 60.0)


@pytest.mark.usefixtures("pods")
async def test_a_channel_whose_set_is_gone_for_good_is_let_go_with_a_word_on_what_stays(
    operator: Start, api: Api, namespace: str, server: Accounts, tenant: Tenant, subscriber: Subscriber
) -> None:
    url, place = server.url_of(INSTALLATION), subscriber.place()
    with tenant.asking(url, HEADRACE_IMAGE=IMAGE, RECONCILE_ORPHAN_GRACE="3s") as reconcile:
        operator(hook=reconcile.url, NATS_URL=url)
        path = await make(api, namespace, place)
        with tenant.reconcile(await deployment_of(api, namespace, "own-reconcile")):
            await until_status(api, namespace, lambda found: ready(found) == "True")
        name = (await deployment_of(api, namespace, "own-reconcile"))["metadata"]["name"]
        # Somebody takes the Deployment away, too, in the moment in which the channel goes.
        await api.delete(path)
        await api.delete(f"{DEPLOYMENTS.format(namespace)}/{name}")
        await api.gone(path)

    assert len(await streams(server, TENANT)) == 2

    async def told() -> bool:
        events = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
        return any(one["reason"] == "StreamOrphaned" and "stay behind in NATS" in one["note"] for one in events)

    await until("an Event names the orphan", told, 60.0)


@pytest.mark.usefixtures("pods")
async def test_a_namespace_that_is_deleted_whole_is_gone_soon_and_the_log_says_what_stays(
    operator: Start, api: Api, namespace: str, server: Accounts, tenant: Tenant, subscriber: Subscriber
) -> None:
    url, place = server.url_of(INSTALLATION), subscriber.place()
    # Patience as it is where nobody has set it: ten minutes, of which nothing could come here.
    with tenant.asking(url, HEADRACE_IMAGE=IMAGE) as reconcile:
        running = operator(hook=reconcile.url, NATS_URL=url, POD_NAMESPACE="default", OPERATOR_LEASE=f"of-{namespace}")
        await make(api, namespace, place)
        (await api.create(CHANNELS.format(namespace=namespace), channel("plain", {}))).unwrapped()
        with tenant.reconcile(await deployment_of(api, namespace, "own-reconcile")):
            await until_status(api, namespace, lambda found: ready(found) == "True")
            await until_status(api, namespace, lambda found: ready(found) == "True", "plain")
        # Kubernetes takes the pods away before anything else.
        await api.delete(f"/api/v1/namespaces/{namespace}")
        await api.gone(f"/api/v1/namespaces/{namespace}", 180.0)

        theirs = await streams(server, TENANT)
        assert len(theirs) == 2
        assert await streams(server, INSTALLATION) == []
        told = [line for line in running.log.splitlines() if "StreamOrphaned" in line]
        assert any(all(name in line for name in (*theirs, "Secret orders-nats")) for line in told), told


def reason(status: dict[str, Any]) -> str:
    return next((one.get("reason", "") for one in status.get("conditions") or () if one["type"] == "Ready"), "")
