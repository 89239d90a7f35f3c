"""A channel is Ready once its `receive` is, shared or not, and each `forward` goes after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import Function
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pods import ready_pods
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
SUBSCRIPTIONS = "/apis/messaging.knative.dev/v1/namespaces/{}/subscriptions"
SERVICES = "/apis/serving.knative.dev/v1/namespaces/{}/services"
AUTOSCALER = "/api/v1/namespaces/knative-serving/configmaps"
INITIAL_SCALE = "autoscaling.knative.dev/initial-scale"
NO_NODE = "0/1 nodes are available: 1 Insufficient cpu."
NEW = "registry.example/headrace@sha256:" + "1" * 64


@pytest.fixture
async def system(api: Api) -> str:
    """Where what channels share is, in no channel's namespace; Knative allows zero."""
    for name in ("knative-eventing", "knative-serving"):
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert (await api.create("/api/v1/namespaces", body)).status in (201, 409)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "config-autoscaler"},
        "data": {"allow-zero-initial-scale": "true"},
    }
    assert (await api.create(AUTOSCALER, config)).status in (201, 409)
    # What an operator that was stopped has left.
    for one in (await api.get(SERVICES.format("knative-eventing"))).body.get("items") or ():
        await api.delete(f"{SERVICES.format('knative-eventing')}/{one['metadata']['name']}")
    return "knative-eventing"


@pytest.fixture
def asked(nats_server: NatsServer, tmp_path: Path) -> Iterator[Callable[[str], Function]]:
    """A `reconcile` for an image."""
    started: list[Function] = []

    def start(image: str) -> Function:
        told = {"HEADRACE_IMAGE": image, "HEADRACE_RUNTIME": "knative"}
        started.append(Function("reconcile", nats_server.url, tmp_path, **told))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()


async def subscribers(api: Api, namespace: str) -> list[dict[str, Any]]:
    """The entries of one Subscription that there is."""
    of = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}
    body = {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": "billing"},
        "spec": {"channel": of, "subscriber": {"uri": "http://billing/"}},
    }
    made = (await api.create(SUBSCRIPTIONS.format(namespace), body)).unwrapped()
    uid = made["metadata"]["uid"]
    return [{"uid": uid, "name": "billing", "generation": 1, "subscriberUri": "http://billing/"}]


async def named(api: Api, system: str, stem: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        items = (await api.get(SERVICES.format(system))).unwrapped()["items"]
        found[:] = [one for one in items if one["metadata"]["name"].startswith(stem)]
        return bool(found)

    await until(f"there is {stem}", is_there, 60.0)
    return found[0]


def image(service: dict[str, Any]) -> Any:
    return service["spec"]["template"]["spec"]["containers"][0]["image"]


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next((one for one in status.get("conditions", ()) if one["type"] == kind), {})


async def say(api: Api, service: dict[str, Any], message: str, created: str = "r-1", was_ready: str = "") -> None:
    """What Knative says of a revision that has failed."""
    metadata = service["metadata"]
    failed = {"status": "False", "message": message}
    status = {
        "observedGeneration": metadata["generation"],
        "latestCreatedRevisionName": created,
        **({"latestReadyRevisionName": was_ready} if was_ready else {}),
        "conditions": [
            {"type": "ConfigurationsReady", **failed},
            {"type": "Ready", **failed},
            {"type": "RoutesReady", "status": "True"},
        ],
    }
    path = f"{SERVICES.format(metadata['namespace'])}/{metadata['name']}/status"
    (await api.merge(path, {"status": status})).unwrapped()


async def test_ready_waits_for_a_receive_that_all_share_and_says_what_holds_it_up(
    operator: Start, api: Api, namespace: str, system: str, asked: Callable[[str], Function]
) -> None:
    operator(hook=asked(IMAGE).url, WATCH_NAMESPACE="")
    spec = {"subscribers": await subscribers(api, namespace)}
    (await api.create(CHANNELS.format(namespace=namespace), channel("orders", spec))).unwrapped()
    await until_status(api, namespace, lambda found: ready(found) == "Unknown")

    await say(api, await named(api, system, "headrace-receive"), NO_NODE)
    await until_status(api, namespace, lambda found: condition(found, "Ready").get("reason") == "NoRoom")

    async with ready_pods(api):
        service = await named(api, system, "headrace-receive")
        path = f"{SERVICES.format(system)}/{service['metadata']['name']}/status"
        (await api.merge(path, {"status": {"observedGeneration": 0}})).unwrapped()
        await until_status(api, namespace, lambda found: ready(found) == "True")
        await until_status(api, namespace, lambda found: found["subscribers"][0]["ready"] == "True")

    # It was ready: that it finds no room now is no reason not to be Ready.
    await say(api, await named(api, system, "headrace-receive"), NO_NODE, was_ready="r-1")
    await until_status(api, namespace, lambda found: condition(found, "FunctionsReady").get("reason") == "NoRoom")
    found = (await api.get(f"{CHANNELS.format(namespace=namespace)}/orders")).unwrapped()["status"]
    assert ready(found) == "True"


async def test_an_upgrade_reaches_forward_only_once_receive_has_been_ready_with_it(
    operator: Start, api: Api, namespace: str, system: str, asked: Callable[[str], Function]
) -> None:
    running = operator(hook=asked(IMAGE).url, WATCH_NAMESPACE="")
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel("orders", {}))).unwrapped()
    async with ready_pods(api):
        await until_status(api, namespace, lambda found: ready(found) == "True")
        (await api.merge(f"{path}/orders", {"spec": {"subscribers": await subscribers(api, namespace)}})).unwrapped()
        await until_status(api, namespace, lambda found: found.get("readySubscribers") == "1/1")
    forward = await named(api, system, "forward-billing")
    assert forward["spec"]["template"]["metadata"]["annotations"][INITIAL_SCALE] == "0"
    running.terminate()
    running.wait()

    operator(hook=asked(NEW).url, WATCH_NAMESPACE="")

    async def asks_for_the_new_one() -> bool:
        return bool(image(await named(api, system, "headrace-receive")) == NEW)

    await until("receive is asked for with the new image", asks_for_the_new_one, 60.0)
    words = f'Revision "r-2" failed with message: Unable to fetch image "{NEW}": 404.'
    await say(api, await named(api, system, "headrace-receive"), words, created="r-2", was_ready="r-1")
    await until_status(api, namespace, lambda found: condition(found, "FunctionsReady").get("reason") == "UpdateFailed")
    found = (await api.get(f"{path}/orders")).unwrapped()["status"]
    assert (ready(found), found["readySubscribers"]) == ("True", "1/1")
    kept = await named(api, system, "forward-billing")
    assert (image(kept), kept["metadata"]["generation"]) == (IMAGE, forward["metadata"]["generation"])

    async with ready_pods(api):
        service = await named(api, system, "headrace-receive")
        at = f"{SERVICES.format(system)}/{service['metadata']['name']}/status"
        (await api.merge(at, {"status": {"observedGeneration": 0}})).unwrapped()

        async def follows() -> bool:
            return bool(image(await named(api, system, "forward-billing")) == NEW)

        await until("forward follows", follows, 60.0)
