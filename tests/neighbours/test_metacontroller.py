"""A stock Metacontroller drives our hook in the place of our operator; Subscriptions are Knative's own controller's.

`task test:neighbours`; docs/neighbours.md says what runs, docs/operator.md what the operator does beyond this.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.neighbours.conftest import GRACE
from tests.neighbours.test_eventing import TEMPLATE, ready, subscription
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube import metacontroller
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.crowd import is_ready
from tests.support.kube.install import variables
from tests.support.kube.kube_api import CHANNELS, Api, connect
from tests.support.kube.subscription_controller import SUBSCRIPTIONS
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats
from tests.support.programs.process import Running
from tests.support.waiting import until

COLLECTIONS = ("/api/v1/namespaces/{namespace}/services", "/apis/apps/v1/namespaces/{namespace}/deployments")
EVENTS = "/api/v1/namespaces/{namespace}/events"

pytestmark = pytest.mark.usefixtures("pods")  # Without functions that are ready no channel is.


@dataclass(frozen=True)
class Stand:
    """What is at work: Metacontroller, and two functions as processes; `forward` is begun as its Deployment says."""

    process: Running
    receive: Function
    reconcile: Function
    nats_url: str
    directory: Path

    @asynccontextmanager
    async def forward(self, deployment: Mapping[str, Any]) -> AsyncIterator[None]:
        """The pod of a Deployment; nobody runs pods here."""
        consumers = variables(dict(deployment))["FORWARD_CONSUMERS"]
        function = Function("forward", self.nats_url, self.directory, FORWARD_CONSUMERS=consumers)
        try:
            await asyncio.to_thread(function.start)
            yield
        finally:
            await asyncio.to_thread(function.stop)


@pytest.fixture(scope="module")
def stand(
    neighbours: ControlPlane, nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    """All of it; the operator of the modules before has ended."""
    directory, url = tmp_path_factory.mktemp("metacontroller"), nats_server.url
    receive = Function("receive", url, directory)
    reconcile = Function(
        "reconcile", url, directory, HEADRACE_IMAGE="registry.example/headrace:1", RECONCILE_GONE_GRACE=GRACE
    )

    async def begin() -> Running:
        session, api = connect(neighbours)
        async with session:
            await metacontroller.forsake_all(api)
            return await metacontroller.begin(neighbours, api, reconcile.url, directory)

    try:
        receive.start()
        reconcile.start()
        process = asyncio.run(begin())
        try:
            yield Stand(process, receive, reconcile, url, directory)
        finally:
            process.kill()
    finally:
        receive.stop()
        reconcile.stop()


@pytest.fixture
async def nats(nats_server: NatsServer) -> AsyncIterator[Nats]:
    async with Nats(nats_server.url) as found:
        yield found


async def children(api: Api, namespace: str, component: str = "") -> dict[str, dict[str, Any]]:
    """Our objects of a namespace, by plural and name; of one function, if it is given."""
    found = {}
    for collection in COLLECTIONS:
        for one in (await api.get(collection.format(namespace=namespace))).unwrapped()["items"]:
            labels = one["metadata"].get("labels") or {}
            ours = labels.get("app.kubernetes.io/managed-by") == "headrace"
            if ours and component in ("", labels["app.kubernetes.io/component"]):
                found[f"{collection.rpartition('/')[2]}/{one['metadata']['name']}"] = one
    return found


async def the(api: Api, namespace: str, component: str) -> dict[str, Any]:
    """The only Deployment of a function."""
    found = [one for name, one in (await children(api, namespace, component)).items() if name.startswith("deploy")]
    assert len(found) == 1, found
    return found[0]


def versions(objects: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: one["metadata"]["resourceVersion"] for name, one in objects.items()}


async def consumers(nats: Nats, stream: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await nats.call(f"CONSUMER.LIST.{stream}"))["consumers"]
    return found


async def streams(nats: Nats) -> set[str]:
    return set((await nats.call("STREAM.NAMES")).get("streams") or ())


async def complaints(api: Api, namespace: str) -> list[dict[str, Any]]:
    """Metacontroller's Warnings, as Events on the channels."""
    found = (await api.get(EVENTS.format(namespace=namespace))).unwrapped()["items"]
    return [one for one in found if one["type"] == "Warning" and one["source"].get("component") == "metacontroller"]


async def test_a_channel_is_served_from_its_first_event_to_its_end(
    stand: Stand, api: Api, namespace: str, subscriber: Subscriber, nats: Nats
) -> None:
    old, new, of = subscriber.place(), subscriber.place(), Channel(namespace, "orders")
    path, subscriptions = f"{CHANNELS.format(namespace=namespace)}/orders", SUBSCRIPTIONS.format(namespace=namespace)
    (await api.create(CHANNELS.format(namespace=namespace), channel("orders"))).unwrapped()
    (await api.create(subscriptions, subscription("billing", {**TEMPLATE, "name": "orders"}, old))).unwrapped()
    uid = (await ready(api, f"{subscriptions}/billing"))["metadata"]["uid"]
    found = await ready(api, path)

    assert found["metadata"]["finalizers"] == [metacontroller.FINALIZER]
    assert found["status"]["address"]["url"] == f"http://{of.host}"
    assert [(one["uid"], one["ready"]) for one in found["status"]["subscribers"]] == [(uid, "True")]
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert {of.stream, of.aside} <= await streams(nats)
    (consumer,) = await consumers(nats, of.stream)
    made = await children(api, namespace)
    kinds = [
        (one["metadata"]["labels"]["app.kubernetes.io/component"], name.split("/")[0]) for name, one in made.items()
    ]
    both = ("deployments", "services")
    assert sorted(kinds) == [
        ("channel", "services"),
        *(("forward", kind) for kind in both),
        *(("receive", kind) for kind in both),
    ]
    for one in made.values():
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (found["metadata"]["uid"], True)

    async with stand.forward(await the(api, namespace, "forward")):
        await post(stand, of, "1")
        await old.wait(1, 60.0)
        assert old.ids == ["1"]

        await stays_silent(stand, api, found)
        (await api.merge(f"{subscriptions}/billing", {"spec": {"subscriber": {"uri": new.uri}}})).unwrapped()
        await follows(stand, of, new)
        await post(stand, of, "last")
        await until("the last event is at the new address", lambda: "last" in new.ids, 60.0)
        assert "last" not in old.ids
        assert [one["name"] for one in await consumers(nats, of.stream)] == [consumer["name"]]

    await api.delete(f"{subscriptions}/billing")
    await api.gone(f"{subscriptions}/billing")
    await until("the consumer is gone after its grace", lambda: is_empty(nats, of.stream), 60.0)
    await until("and its function with it", lambda: has_none(api, namespace, "forward"), 60.0)
    # Later there is one: it tells a channel that it has let go of its status.
    assert await complaints(api, namespace) == []

    await api.delete(path)
    await api.gone(path)
    assert not {of.stream, of.aside} & await streams(nats)
    await until("no child is left", lambda: has_none(api, namespace), 120.0)


async def post(stand: Stand, of: Channel, event: str) -> None:
    """Send an event as from within the cluster, where the channel's Service leads to its `receive`."""
    reply = await send(stand.receive.url, b'{"n": 1}', {**BINARY, "ce-id": event, "Host": of.host})
    assert reply.status == 202, reply


async def stays_silent(stand: Stand, api: Api, before: Mapping[str, Any]) -> None:
    """Passes that change nothing write nothing: neither children nor status, which would call the next pass."""
    namespace, name = before["metadata"]["namespace"], before["metadata"]["name"]
    path = f"{CHANNELS.format(namespace=namespace)}/{name}"
    made = await children(api, namespace)
    version = ""
    for number in ("1", "2"):
        passes = metacontroller.passes(stand.process, namespace, name)
        note = {"metadata": {"annotations": {"example.com/looked-at": number}}}
        version = (await api.merge(path, note)).unwrapped()["metadata"]["resourceVersion"]
        # The second begins when the first is over.
        await until(
            "Metacontroller looks at the channel",
            lambda passes=passes: metacontroller.passes(stand.process, namespace, name) > passes,
            60.0,
        )
    assert versions(await children(api, namespace)) == versions(made)
    assert (await api.get(path)).unwrapped()["metadata"]["resourceVersion"] == version


async def follows(stand: Stand, of: Channel, place: Place) -> None:
    """Wait until events come to another place; a lease that is open goes on as it began, for some seconds."""
    numbers = itertools.count(2)

    async def comes() -> bool:
        await post(stand, of, str(next(numbers)))
        await asyncio.sleep(0.2)
        return bool(place.received)

    await until("events come to the new address", comes, 60.0)


async def is_empty(nats: Nats, stream: str) -> bool:
    return await consumers(nats, stream) == []


async def has_none(api: Api, namespace: str, component: str = "") -> bool:
    return not await children(api, namespace, component)


async def test_a_hook_that_was_away_is_caught_up_with_and_nobody_reads_its_token_in_events(
    stand: Stand, api: Api, namespace: str, nats: Nats
) -> None:
    collection = CHANNELS.format(namespace=namespace)
    early, late = Channel(namespace, "early"), Channel(namespace, "late")
    (await api.create(collection, channel("early"))).unwrapped()
    await ready(api, f"{collection}/early")

    await asyncio.to_thread(stand.reconcile.stop)
    try:
        (await api.create(collection, channel("late"))).unwrapped()
        await api.delete(f"{collection}/early")

        async def both_are_told_of() -> bool:
            return {one["involvedObject"]["name"] for one in await complaints(api, namespace)} == {"early", "late"}

        await until("Metacontroller tells of both channels", both_are_told_of, 60.0)
        assert TOKEN not in json.dumps(await complaints(api, namespace)) + stand.process.log
        waiting = (await api.get(f"{collection}/early")).unwrapped()
        assert waiting["metadata"]["finalizers"] == [metacontroller.FINALIZER]
        assert not is_ready((await api.get(f"{collection}/late")).unwrapped())
        assert {early.stream, early.aside} <= await streams(nats)
    finally:
        await asyncio.to_thread(stand.reconcile.start)

    # It waits for as long as it has waited already.
    await api.gone(f"{collection}/early")
    await ready(api, f"{collection}/late")
    assert await streams(nats) & {early.stream, early.aside, late.stream, late.aside} == {late.stream, late.aside}
    await api.delete(f"{collection}/late")
    await api.gone(f"{collection}/late")


async def test_channels_of_one_name_or_of_one_namespace_do_not_come_in_each_others_way(
    stand: Stand, api: Api, namespace: str, other_namespace: str
) -> None:
    wanted = [(namespace, "orders"), (other_namespace, "orders"), (namespace, "returns")]
    for where in (namespace, other_namespace):
        sink = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"dead-of-{where}"}}
        sink["spec"] = {"type": "ExternalName", "externalName": "dead.example"}
        (await api.create(f"/api/v1/namespaces/{where}/services", sink)).unwrapped()
    for where, name in wanted:
        ref = {"apiVersion": "v1", "kind": "Service", "name": f"dead-of-{where}"}
        body = channel(name, {"delivery": {"deadLetterSink": {"ref": ref}}})
        (await api.create(CHANNELS.format(namespace=where), body)).unwrapped()

    hosts = {}
    for where, name in wanted:
        found = await ready(api, f"{CHANNELS.format(namespace=where)}/{name}")
        assert found["status"]["deadLetterSinkUri"] == f"http://dead-of-{where}.{where}.svc.cluster.local"
        service = (await api.get(f"/api/v1/namespaces/{where}/services/{name}-kn-jsm-channel")).unwrapped()
        hosts[where, name] = service["spec"]["externalName"]

    # Each has a `receive` of its own, since nobody here can share one.
    assert len(set(hosts.values())) == len(wanted)
    assert {where: host.split(".")[1] for (where, _), host in hosts.items()} == {where: where for where, _ in wanted}
    for where in (namespace, other_namespace):
        assert await complaints(api, where) == []
    for where, name in wanted:
        await api.delete(f"{CHANNELS.format(namespace=where)}/{name}")
        await api.gone(f"{CHANNELS.format(namespace=where)}/{name}")
