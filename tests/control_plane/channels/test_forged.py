"""A namespace's admin forges what he may write there, and reaches no other tenant by it (ADR 052).

Knative's own roles let him write the status of his channels, and he may write every object of his namespace. Real are
the API server, the nats-server, the operator of the whole cluster and the functions. The attacker's server records who
comes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.core import names
from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.control_plane.channels.test_whole import post
from tests.control_plane.conftest import clear
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.hook import Hook
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


async def forge(mallory: Api, name: str, uid: str, of: str, **labels: str) -> str:
    """Make a Service in the attacker's namespace with all marks of a child; gives its path."""
    marks = {"app.kubernetes.io/managed-by": "headrace", **({"headrace.dev/channel-uid": uid} if uid else {}), **labels}
    metadata = {"name": name, "labels": marks, "annotations": {"headrace.dev/channel": of}}
    spec = {"type": "ExternalName", "externalName": "attacker.example"}
    path = f"/api/v1/namespaces/{HOME}/services/{name}"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    (await mallory.apply(path, body, manager="headrace", force=True)).unwrapped()
    return path


async def test_an_object_with_the_marks_of_a_victims_child_is_not_shown_to_the_hook_and_makes_no_pass(
    operator: Start, api: Api, mallory: Api, namespace: str, hook: Hook
) -> None:
    hook.system_namespace = namespace
    uid = str((await create(api, namespace))["metadata"]["uid"])
    shared = {"headrace.dev/shared": "true", "headrace.dev/scope": "cluster"}
    early = await forge(mallory, "early", uid, f"{namespace}/orders")
    await forge(mallory, "headrace-receive", "", f"{namespace}/orders", **shared)
    running = operator(WATCH_NAMESPACE="")
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await running.leads()
    # What was there before is gone, since it can be nobody's.
    await api.gone(early)
    calls = len(hook.of("sync", "orders"))

    for number in range(20):
        await forge(mallory, "late", uid, f"{namespace}/orders", number=str(number))
    await asyncio.sleep(2.0)
    assert len(hook.of("sync", "orders")) == calls

    await forge(mallory, "headrace-receive", "", f"{namespace}/orders", **shared)
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"metadata": {"labels": {"now": "1"}}})
    await hook.called(calls + 1, name="orders")
    for call in hook.of("sync", "orders"):
        assert HOME not in json.dumps([call.request["children"], call.request["headrace"]["shared"]])


@pytest.mark.parametrize("of", ["evil/?", "evil/x/../../..?y="])
async def test_an_object_that_says_it_is_a_child_of_nonsense_leaves_the_operator_at_work(
    operator: Start, api: Api, mallory: Api, namespace: str, hook: Hook, of: str
) -> None:
    made = await forge(mallory, "stray", "nobody", of)
    running = operator(WATCH_NAMESPACE="")
    # Strays are looked for a moment after the start, and this one is gone when that is over.
    proof = await forge(mallory, "zz-proof", "nobody", f"{HOME}/nobody")
    await running.leads()
    await api.gone(proof)
    assert (await api.get(made)).accepted
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await api.delete(made)


async def test_an_entry_whose_name_is_a_path_asks_the_api_server_for_nothing_else(
    operator: Start, api: Api, mallory: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    named = {"kind": "Subscription", "apiVersion": "messaging.knative.dev/v1", "namespace": HOME, "uid": "u"}
    asked = {**named, "name": "../../../../../../api/v1/namespaces/kube-system/configmaps?"}
    hook.sync = lambda _: {"headrace": {"verify": [asked, {**named, "name": "nobody"}]}}
    operator(WATCH_NAMESPACE="")
    (await mallory.create(FOLDER, channel("mine"))).unwrapped()
    # Of the two only one can be there or not, and is not.
    call = await hook.called(2, name="mine")
    assert call.request["headrace"]["absent"] == ["u"]
    assert not [one.path for one in relay.asked if "kube-system" in one.path]
