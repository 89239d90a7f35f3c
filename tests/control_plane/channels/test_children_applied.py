"""The children of channels: applied, healed, pruned, shared, left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.control_plane.channels.test_channels import create, read, ready, until_status
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import answers, deployment, knative, path, service, until_there
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
UID_LABEL = "headrace.dev/channel-uid"


async def test_children_are_applied_with_their_owner_and_seen_by_the_hook(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(deployment(), service(), knative())
    operator()
    uid = (await create(api, namespace))["metadata"]["uid"]
    for where in (("deployment", "forward"), ("service", "orders-kn-jsm-channel"), ("knative", "forward-1")):
        found = await until_there(api, path(where[0], namespace, where[1]))
        assert found["metadata"]["labels"][UID_LABEL] == uid
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "headrace"
        owner = found["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"], owner["kind"]) == (uid, True, "NatsJetStreamChannel")
    seen = ("Deployment.apps/v1", "Service.v1", "Service.serving.knative.dev/v1")
    await hook.saw(lambda request: all(request["children"].get(kind) for kind in seen), "its children")


async def test_a_child_that_is_edited_or_deleted_is_put_right_and_what_others_add_stays(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(deployment())
    operator()
    await create(api, namespace)
    where = path("deployment", namespace, "forward")
    first = await until_there(api, where)
    await api.merge(where, {"metadata": {"labels": {"team": "a"}}, "spec": {"replicas": 3}})
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "somebody:else"}
    (await api.json_patch(where, [image])).unwrapped()

    def put_right(found: dict[str, Any]) -> bool:
        return bool(found["spec"]["template"]["spec"]["containers"][0]["image"] == "headrace:1")

    mended = await until_there(api, where, put_right)
    assert mended["spec"]["replicas"] == 3
    assert mended["metadata"]["labels"]["team"] == "a"

    await api.delete(where)
    await until_there(api, where, lambda found: found["metadata"]["uid"] != first["metadata"]["uid"])


async def test_what_is_not_wanted_any_more_goes_field_by_field_and_object_by_object(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(deployment(annotations={"a": "b"}), service())
    operator()
    await create(api, namespace)
    await until_there(api, path("service", namespace, "orders-kn-jsm-channel"))
    await until_there(api, path("deployment", namespace, "forward"))
    hook.sync = answers(deployment())
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"delivery": {"retry": 1}}})
    await api.gone(path("service", namespace, "orders-kn-jsm-channel"), 60.0)
    where = path("deployment", namespace, "forward")
    await until_there(api, where, lambda found: "a" not in found["metadata"]["annotations"])


async def test_nothing_is_applied_again_by_the_next_operator(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.sync = answers(deployment(), service())
    running = operator()
    await create(api, namespace)
    await until_there(api, path("deployment", namespace, "forward"))
    await hook.saw(lambda request: "Deployment.apps/v1" in request["children"], "its child")
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await until("the queue is empty", lambda: running.number("headrace_operator_queue_busy") == 0)
    await asyncio.to_thread(running.stop)
    calls, requests = len(hook.of()), len(relay.asked)
    second = operator()
    await hook.called(calls + 1)
    await until("the queue is empty", lambda: second.number("headrace_operator_queue_busy") == 0)
    # A quantity is written in other words by the server: 1000m is 1, and may be applied once more, for nothing.
    written = [one for one in relay.of("PATCH", since=requests) if "/deployments/" not in one.path]
    assert written == []
    assert len(relay.of("PATCH", "/deployments/", since=requests)) <= 1


async def test_somebody_who_insists_is_answered_more_and_more_slowly(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.sync = answers(service())
    operator()
    await create(api, namespace)
    where = path("service", namespace, "orders-kn-jsm-channel")
    await until_there(api, where)
    deadline = asyncio.get_running_loop().time() + 4.0
    while asyncio.get_running_loop().time() < deadline:
        await api.merge(where, {"spec": {"externalName": "somebody.else"}})
        await asyncio.sleep(0.02)
    assert len(relay.of("PATCH", "/services/")) <= 5
    await until_there(api, where, lambda found: found["spec"]["externalName"] == "receive.example")


async def test_somebody_elses_object_of_that_name_is_left_alone_and_the_others_are_applied(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    theirs = service(host="theirs.example")
    (await api.create(f"/api/v1/namespaces/{namespace}/services", theirs)).unwrapped()
    hook.sync = answers(service(), deployment())
    operator()
    await create(api, namespace)
    await until_there(api, path("deployment", namespace, "forward"))
    await until_status(api, namespace, lambda found: ready(found) == "True")
    where = path("service", namespace, "orders-kn-jsm-channel")
    assert (await api.get(where)).unwrapped()["spec"]["externalName"] == "theirs.example"

    async def is_told() -> bool:
        told = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
        return any("not of this channel" in one["note"] for one in told)

    await until("an Event tells of it", is_told, 60.0)
    await api.delete(where)
    await until_there(api, where, lambda found: found["spec"]["externalName"] == "receive.example")


async def test_what_the_go_channel_made_for_this_channel_is_taken_over(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    uid = (await create(api, namespace))["metadata"]["uid"]
    owner = {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "name": "orders",
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    theirs = service(host="dispatcher.example", ownerReferences=[owner])
    (await api.create(f"/api/v1/namespaces/{namespace}/services", theirs)).unwrapped()
    hook.sync = answers(service())
    operator()
    where = path("service", namespace, "orders-kn-jsm-channel")
    await until_there(api, where, lambda found: found["spec"]["externalName"] == "receive.example")


async def test_a_shared_child_belongs_to_every_channel_and_goes_with_the_last(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(deployment("receive", labels={"headrace.dev/shared": "true"}))
    operator()
    uids = {(await create(api, namespace, name))["metadata"]["uid"] for name in ("one", "two", "three")}
    where = path("deployment", namespace, "receive")

    def owned_by(wanted: set[str]) -> Callable[[dict[str, Any]], bool]:
        return lambda found: {one["uid"] for one in found["metadata"].get("ownerReferences") or ()} == wanted

    found = await until_there(api, where, owned_by(uids))
    assert UID_LABEL not in found["metadata"]["labels"]
    assert not any(one.get("controller") for one in found["metadata"]["ownerReferences"])

    channels = CHANNELS.format(namespace=namespace)
    for name in ("one", "two"):
        gone = (await read(api, namespace, name))["metadata"]["uid"]
        await api.delete(f"{channels}/{name}")
        await api.gone(f"{channels}/{name}")
        uids.discard(gone)
        await until_there(api, where, owned_by(uids))
    await api.delete(f"{channels}/three")
    await api.gone(where)


async def test_a_shared_child_in_another_namespace_goes_with_the_last_that_wants_it(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    system = f"{namespace}-system"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    shared = deployment("receive", namespace=system, labels={"headrace.dev/shared": "true"})
    own = service(namespace=system)

    def sync(request: dict[str, Any]) -> dict[str, Any]:
        # The operator sees the whole cluster here, and with it what other tests have left.
        parent = request["parent"]["metadata"]
        if parent["namespace"] != namespace:
            return {"status": request["parent"].get("status") or {}}
        return answers(*([shared, own] if parent["name"] == "one" else [shared]))(request)

    hook.sync = sync
    operator(WATCH_NAMESPACE="")
    for name in ("one", "two"):
        await create(api, namespace, name)
    found = await until_there(api, path("deployment", system, "receive"))
    assert "ownerReferences" not in found["metadata"]
    await until_there(api, path("service", system, "orders-kn-jsm-channel"))
    for name in ("one", "two"):
        await until_status(api, namespace, lambda found: ready(found) == "True", name)

    channels = CHANNELS.format(namespace=namespace)
    await api.delete(f"{channels}/one")
    await api.gone(f"{channels}/one")
    assert (await api.get(path("service", system, "orders-kn-jsm-channel"))).status == 404
    assert (await api.get(path("deployment", system, "receive"))).status == 200
    await api.delete(f"{channels}/two")
    await api.gone(f"{channels}/two")
    assert (await api.get(path("deployment", system, "receive"))).status == 404


async def test_a_going_channel_keeps_the_children_that_removal_needs_until_it_is_finalized(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(deployment(), service())
    hook.finalize = lambda _: {"finalized": False, "resyncAfterSeconds": 0.2, "children": [deployment()]}
    operator()
    await create(api, namespace)
    await until_there(api, path("service", namespace, "orders-kn-jsm-channel"))
    await until_there(api, path("deployment", namespace, "forward"))
    channel = f"{CHANNELS.format(namespace=namespace)}/orders"
    await api.delete(channel)
    await api.gone(path("service", namespace, "orders-kn-jsm-channel"), 60.0)
    await hook.called(3, "finalize")
    assert (await api.get(path("deployment", namespace, "forward"))).status == 200
    assert (await api.get(channel)).status == 200
    hook.finalize = lambda _: {"finalized": True}
    await api.gone(channel)
    assert (await api.get(path("deployment", namespace, "forward"))).status == 404


@pytest.mark.parametrize(
    ("child", "words"),
    [
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}, "does not serve", id="kind"
        ),
        pytest.param({"apiVersion": "v1", "kind": "Service", "metadata": {}}, "without metadata.name", id="name"),
        pytest.param(service(host="not a host"), "externalName", id="refused"),
    ],
)
async def test_a_child_that_can_not_be_does_not_keep_the_status_from_being_written(
    operator: Start, api: Api, namespace: str, hook: Hook, child: dict[str, Any], words: str
) -> None:
    hook.sync = answers(child, deployment())
    operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await until_there(api, path("deployment", namespace, "forward"))

    async def is_told() -> bool:
        told = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
        return any(words in one["note"] for one in told)

    await until("an Event tells of it", is_told, 60.0)
