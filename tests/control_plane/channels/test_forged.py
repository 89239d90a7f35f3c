"""A namespace's admin forges what he may write there, and reaches no other tenant by it (ADR 052).

Knative's own roles let him write the status of his channels; and he writes every object of his namespace. Real are the
API server, the nats-server, the operator of the whole cluster and the functions. The attacker's server records who
comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.core import names
from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.control_plane.channels.test_whole import post
from tests.control_plane.conftest import clear
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import CHANNELS, Api, connect
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
MALLORY, HOME = "mallory", "evil"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
FOLDER = CHANNELS.format(namespace=HOME)
SUBSCRIPTIONS = "/apis/messaging.knative.dev/v1/namespaces/{}/subscriptions"


@pytest.fixture
def functions(nats_server: NatsServer, tmp_path: Path) -> Iterator[dict[str, Function]]:
    """Running."""
    found = {target: Function(target, nats_server.url, tmp_path) for target in ("receive", "forward", "reconcile")}
    try:
        for function in found.values():
            function.start()
        yield found
    finally:
        for function in found.values():
            function.stop()


@pytest.fixture
async def mallory(control_plane: ControlPlane, api: Api) -> AsyncIterator[Api]:
    """May do everything in the namespace of his own, and nothing elsewhere."""
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}
    binding = {"metadata": {"name": MALLORY}, "roleRef": role, "subjects": [subject]}
    await api.create(f"{RBAC}/namespaces/{HOME}/rolebindings", binding)
    session, found = connect(control_plane, user=MALLORY)
    async with session:
        yield found
    await clear(api, HOME)


@asynccontextmanager
async def again_and_again(deed: Callable[[], Awaitable[Any]]) -> AsyncIterator[None]:
    """The deed, twenty times a second: what puts it right has no rest."""

    async def repeat() -> None:
        while True:
            await deed()
            await asyncio.sleep(0.05)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def subscribe(api: Api, namespace: str, place: Place) -> str:
    """A channel with a Subscription; gives the Subscription's uid."""
    ref = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}
    spec = {"channel": ref, "subscriber": {"uri": place.uri}}
    body = {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "metadata": {"name": "billing"}}
    made = (await api.create(SUBSCRIPTIONS.format(namespace), {**body, "spec": spec})).unwrapped()
    uid = str(made["metadata"]["uid"])
    entry = {"uid": uid, "name": "billing", "generation": 1, "subscriberUri": place.uri}
    (await api.create(CHANNELS.format(namespace=namespace), channel("orders", {"subscribers": [entry]}))).unwrapped()
    return uid


def forged(victim: str, uid: str, address: str) -> dict[str, Any]:
    """The status of a channel that has the victim's stream and consumer, and a `forward` at the attacker's address."""
    rows = [{"uid": uid, "name": "billing", "durable": names.durable(uid), "forward": address, "lag": 1}]
    conditions = [{"type": "StreamReady", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"}]
    return {"stream": names.stream(victim, "orders"), "consumers": rows, "conditions": conditions}


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({}, id="of a channel that is well"),
        pytest.param({"headrace.dev/max-scale": "many"}, id="of one that is invalid, whose status is kept"),
    ],
)
async def test_a_forged_status_leads_no_lease_of_a_victim_to_its_writer(
    operator: Start,
    api: Api,
    mallory: Api,
    namespace: str,
    functions: dict[str, Function],
    subscriber: Subscriber,
    annotations: dict[str, str],
) -> None:
    victim, attacker = subscriber.place(), subscriber.place()
    urls = {"hook": functions["reconcile"].url, "FORWARD_URL": functions["forward"].url}
    whole = {"WATCH_NAMESPACE": "", "OPERATOR_SWEEP": "1s"}
    running = operator(**urls, **whole)
    (await mallory.create(FOLDER, channel("mine", annotations=annotations))).unwrapped()
    await until_status(api, HOME, lambda found: bool(ready(found)), "mine")
    uid = await subscribe(api, namespace, victim)
    await until_status(api, namespace, lambda found: ready(found) == "True")

    async def forge() -> None:
        (await mallory.merge(f"{FOLDER}/mine/status", {"status": forged(namespace, uid, attacker.uri)})).unwrapped()

    async with again_and_again(forge):
        for number in range(20):
            await post(functions["receive"], namespace, str(number))
            await asyncio.sleep(0.1)
        await arrived(victim, attacker, 20)
        # Whoever takes over knows no more than what is written.
        running.kill()
        await post(functions["receive"], namespace, "late")
        operator(**urls, **whole)
        await arrived(victim, attacker, 21)
    assert attacker.received == [], [(each.body, each.header("authorization")) for each in attacker.received]


async def arrived(victim: Place, attacker: Place, events: int) -> None:
    """Wait for the events, or for the attacker's success."""
    await until("an event went somewhere", lambda: len(victim.ids) >= events or attacker.received != [], 60.0)
    assert attacker.received == [], [(each.body, each.header("authorization")) for each in attacker.received]
