"""Objects that others make for ours bear the labels of ours, and are not ours: they are neither touched nor told."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.control_plane.channels.test_shared import EVERYWHERE, SHARED
from tests.control_plane.channels.test_shared import system as system
from tests.control_plane.conftest import DEFINITIONS, established
from tests.support.kube import copied_labels
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import answers, deployment, knative, path, service, until_there
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
SERVING = Path(__file__).parents[1] / "crds" / "serving.yaml"
# In which the operator looks for children without a channel once.
STRAYS = 6.0
SCALED = "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects/{}"


@pytest.fixture
async def serving(api: Api) -> AsyncIterator[None]:
    """The kinds of what Knative Serving makes."""
    definitions = list(yaml.safe_load_all(SERVING.read_text(encoding="utf-8")))
    for definition in definitions:
        (await api.create(DEFINITIONS, definition, strict=True)).unwrapped()
    for definition in definitions:
        await established(api, definition["metadata"]["name"])
    yield
    for definition in definitions:
        await api.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")


def scaled(name: str, **metadata: Any) -> dict[str, Any]:
    trigger = {"account": "$G", "stream": "KN_A__B", "consumer": "KN_SUB_1"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, **metadata},
        "spec": {"scaleTargetRef": {"name": name}, "triggers": [{"type": "nats-jetstream", "metadata": trigger}]},
    }


def marked(one: dict[str, Any]) -> dict[str, Any]:
    """With the labels that `reconcile` gives to each object, and to the pods of each."""
    ours = {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/managed-by": "headrace"}
    labels = {**ours, **one["metadata"].get("labels", {})}
    pods = one["spec"].get("template")
    if pods is not None and pods.get("metadata"):
        pods["metadata"]["labels"] |= ours
    return {**one, "metadata": {**one["metadata"], "labels": labels}}


async def copies(api: Api, namespace: str, system: str) -> dict[str, dict[str, Any]]:
    """Everything that others make for what the operator has made, and a copy by hand, by path."""
    own = await until_there(api, path("knative", namespace, "forward-1"))
    shared = await until_there(api, path("knative", system, "receive"))
    plain = await until_there(api, path("deployment", namespace, "forward-plain-1"))
    autoscaled = await until_there(api, SCALED.format(namespace, "forward-plain-1"))
    found: dict[str, dict[str, Any]] = {}
    for one in (own, shared):
        found |= await copied_labels.of_knative_service(api, one)
    found |= await copied_labels.of_deployment(api, plain)
    found |= await copied_labels.of_scaled_object(api, autoscaled)

    metadata = {key: plain["metadata"][key] for key in ("labels", "annotations")}
    by_hand = {**plain, "metadata": {**metadata, "name": "forward-by-hand", "namespace": namespace}}
    where = path("deployment", namespace, "")
    found[f"{where}forward-by-hand"] = (await api.create(where.rstrip("/"), by_hand)).unwrapped()
    return found


async def versions(api: Api, paths: Any) -> dict[str, str]:
    found = {}
    for each in paths:
        answer = await api.get(each)
        found[each] = answer.body["metadata"]["resourceVersion"] if answer.accepted else str(answer.status)
    return found


async def test_what_knative_keda_and_deployments_make_for_our_objects_is_left_alone(
    operator: Start, api: Api, namespace: str, system: str, serving: None, hook: Hook, relay: ApiRelay
) -> None:
    own = [knative(), deployment("forward-plain-1"), scaled("forward-plain-1")]
    shared = marked(knative("receive", namespace=system, labels={**SHARED, "headrace.dev/scope": "cluster"}))

    def sync(request: dict[str, Any]) -> dict[str, Any]:
        parent = request["parent"]["metadata"]
        if parent["namespace"] != namespace:
            return {"status": request["parent"].get("status") or {}}
        return answers(shared, *(map(marked, own) if parent["name"] == "one" else []))(request)

    hook.sync = sync
    first = operator(**EVERYWHERE)
    for name in ("one", "two"):
        await create(api, namespace, name)
        await until_status(api, namespace, lambda found: ready(found) == "True", name)
    made = await copies(api, namespace, system)
    before = await versions(api, made)
    since, calls = len(relay.asked), len(hook.of())

    # They change as they do in life, passes are made, and another operator begins and looks for strays.
    channels = CHANNELS.format(namespace=namespace)
    for retry in (1, 2):
        await api.merge(f"{channels}/one", {"spec": {"delivery": {"retry": retry}}})
        await hook.called(len(hook.of("sync", "one")) + 1, "sync", "one")
    await asyncio.to_thread(first.stop)
    second = operator(**EVERYWHERE)
    await second.leads()
    await until("the queue is empty", lambda: second.number("headrace_operator_queue_busy") == 0)
    await asyncio.sleep(STRAYS)
    assert await versions(api, made) == before
    assert [one for one in relay.asked[since:] if one.path in made or one.verb == "DELETE"] == []
    seen = [children(call.request) for call in hook.of()[calls:]]
    assert set(itertools.chain.from_iterable(seen)) == {
        ("Service.serving.knative.dev/v1", "forward-1"),
        ("Deployment.apps/v1", "forward-plain-1"),
        ("ScaledObject.keda.sh/v1alpha1", "forward-plain-1"),
    }

    # What is ours goes, and nothing else by our hand.
    for name in ("one", "two"):
        await api.delete(f"{channels}/{name}")
        await api.gone(f"{channels}/{name}")
    await api.gone(path("knative", system, "receive"))
    assert (await api.get(path("knative", namespace, "forward-1"))).status == 404
    await asyncio.sleep(STRAYS)
    # What is gone now Kubernetes' garbage collector has taken.
    assert [one for one in relay.asked if one.path in made] == []


def children(request: dict[str, Any]) -> list[tuple[str, str]]:
    return [(kind, name) for kind, group in request["children"].items() for name in group]


async def test_what_knative_made_under_a_name_that_a_channel_wants_is_not_written(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.sync = answers(knative("orders-kn-jsm-channel"))
    operator()
    await create(api, namespace)
    made = await until_there(api, path("knative", namespace, "orders-kn-jsm-channel"))
    # An owner that is there: whose owner is not Kubernetes' garbage collector takes.
    owner = copied_labels.controlled_by(made)
    copied = {key: made["metadata"][key] for key in ("labels", "annotations")}
    placeholder = service(host="kourier.example", **copied, ownerReferences=[owner])
    (await api.create(f"/api/v1/namespaces/{namespace}/services", placeholder)).unwrapped()
    hook.sync = answers(knative("orders-kn-jsm-channel"), service())
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"delivery": {"retry": 1}}})

    async def is_told() -> bool:
        told = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
        return any("not of this channel" in one["note"] for one in told)

    await until("an Event tells of it", is_told, 60.0)
    where = path("service", namespace, "orders-kn-jsm-channel")
    assert (await api.get(where)).unwrapped()["spec"]["externalName"] == "kourier.example"
    assert [one for one in relay.asked if one.path == where and one.verb != "GET"] == []
