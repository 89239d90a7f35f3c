"""Each function in a container of the image, as a kubelet starts it from our manifests and `reconcile`'s answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.caller_token import bearer_for_host
from tests.image.conftest import Figures
from tests.support.functions.channels import channel, entry
from tests.support.functions.functions import TOKEN
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats
from tests.support.programs.built_image import RECONCILE, Pods, installed, pod_of
from tests.support.programs.containers import Container, probe

ORDERS = Channel("shop", "orders")
MIB = (128, 256)


async def children(reconcile: Container, runtime: str, uri: str) -> dict[str, Any]:
    """What the hook answers for a channel with one subscriber."""
    serving = ["serving.knative.dev/v1"] if runtime == "knative" else []
    body = {
        "parent": channel(entry(subscriberUri=uri)),
        "children": {},
        "related": {},
        "finalizing": False,
        "headrace": {"apis": serving},
    }
    headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
    reply = await send(f"{reconcile.url}/sync", json.dumps(body).encode(), headers)
    assert reply.status == 200, reply
    found: dict[str, Any] = reply.json
    return found


def started(container: Container, pod: dict[str, Any]) -> Container:
    """Until the probes that its manifest has are answered."""
    (one,) = pod["containers"]
    container.until(container.url + one["readinessProbe"]["httpGet"]["path"])
    assert probe(container.url + one["livenessProbe"]["httpGet"]["path"]) == 200
    return container


def with_pods(answer: dict[str, Any], function: str) -> dict[str, Any]:
    """The pod's spec of one function among the children."""
    (found,) = [
        one
        for one in answer["children"]
        if "template" in one["spec"] and one["metadata"]["labels"]["app.kubernetes.io/component"] == function
    ]
    return pod_of(found)


@pytest.mark.parametrize("memory", MIB)
@pytest.mark.parametrize("runtime", ["knative", "deployment"])
async def test_an_event_is_stored_and_delivered_by_what_reconcile_answers(
    pods: Pods, image_nats: NatsServer, figures: Figures, runtime: str, memory: int
) -> None:
    body = pod_of(installed(RECONCILE[runtime]))
    with Subscriber() as subscribers, pods.container(body, memory=memory) as reconcile:
        place = subscribers.place()
        answer = await children(started(reconcile, body), runtime, place.uri)
        pod = {name: with_pods(answer, name) for name in ("receive", "forward")}
        with (
            pods.container(pod["receive"], memory=memory) as receive,
            pods.container(pod["forward"], memory=memory) as forward,
        ):
            reply = await send(started(receive, pod["receive"]).url + ORDERS.path, b"{}", BINARY)
            assert reply.status == 202, reply
            started(forward, pod["forward"])
            if runtime == "knative":
                assert await leased(forward, answer) == 1
            (event,) = await place.wait(1)
            assert event.event["id"] == "1"
            async with Nats(image_nats.url) as nats:
                assert (await nats.call(f"STREAM.INFO.{ORDERS.stream}"))["state"]["last_seq"] == 1
            for name, container in (("reconcile", reconcile), ("receive", receive), ("forward", forward)):
                figures.add(f"{name}, {runtime}", memory, container)
                assert container.written() == []
                container.terminate()
                assert "Traceback" not in container.log


async def leased(forward: Container, answer: dict[str, Any]) -> int:
    """A lease, as the operator asks for it; how many events it has delivered."""
    (consumer,) = answer["status"]["consumers"]
    host = consumer["forward"].removeprefix("http://")
    headers = {"content-type": "application/json", "authorization": f"Bearer {bearer_for_host(TOKEN.encode(), host)}"}
    asked = {"stream": ORDERS.stream, "consumer": consumer["durable"], "seconds": 5, "linger": 0.5}
    reply = await send(forward.url, json.dumps(asked).encode(), headers)
    assert reply.status == 200, reply
    return int(reply.json["delivered"])
