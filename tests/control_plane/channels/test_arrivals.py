"""A request at a `receive` that sleeps wakes `forward`: seen at the Deployment that Knative keeps for `receive`.

Deployments are made and scaled here as Knative Serving 0.50 does it; nothing runs behind them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.support.functions.scaling import ended, subscribed
from tests.support.http.subscriber import Place, Subscriber
from tests.support.kube import hook as hooks
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
FOLDER = "/apis/apps/v1/namespaces/{}/deployments"
LABELS = {
    "app.kubernetes.io/name": "headrace",
    "app.kubernetes.io/component": "receive",
    "app.kubernetes.io/managed-by": "headrace",
    "serving.knative.dev/service": "headrace-receive",
}


class Revision:
    """The Deployment of one revision of `headrace-receive`, in Knative's hands."""

    def __init__(self, api: Api, namespace: str, number: int = 1) -> None:
        self._api = api
        self._folder = FOLDER.format(namespace)
        self._name = f"headrace-receive-{number:05}"

    async def make(self, replicas: int) -> Revision:
        own = {"serving.knative.dev/revision": self._name}
        pods = {"containers": [{"name": "receive", "image": "headrace:1"}]}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": f"{self._name}-deployment", "labels": {**LABELS, **own}},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": own},
                "template": {"metadata": {"labels": {**LABELS, **own}}, "spec": pods},
            },
        }
        (await self._api.create(self._folder, body)).unwrapped()
        return self

    async def scale(self, replicas: int) -> None:
        """As Knative's autoscaler patches it."""
        patch = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
        (await self._api.json_patch(f"{self._folder}/{self._name}-deployment", patch)).unwrapped()


@pytest.fixture
def forward(subscriber: Subscriber) -> Place:
    """What plays `forward`; its leases find nothing."""
    return subscriber.place(ended())


async def none_more(forward: Place, than: int) -> None:
    await asyncio.sleep(1.0)
    assert len(forward.received) == than


async def served(nats: Nats, **subscriber: Any) -> tuple[str, str]:
    """Stream and consumer of a channel."""
    channel, durable = await subscribed(nats, **subscriber)
    return channel.stream, durable


def answers(hook: Hook, namespace: str, **streams: tuple[str, str]) -> None:
    """The hook says of channels, by name, that they have this stream and consumer and all the same `receive`."""

    def sync(request: dict[str, Any]) -> dict[str, Any]:
        metadata = request["parent"]["metadata"]
        stream, durable = streams[metadata["name"]]
        consumers = [{"uid": durable, "durable": durable}]
        more = {"stream": stream, "consumers": consumers, "receive": f"{namespace}/headrace-receive"}
        return {"status": hooks.status(metadata["generation"], **more)}

    hook.sync = sync


async def known(running: OperatorProcess, api: Api, namespace: str, *names: str) -> None:
    """The channels are there, and the operator knows their consumers."""
    for name in names:
        await create(api, namespace, name)
        await until_status(api, namespace, lambda found: ready(found) == "True", name)
    await running.leads()
    pending = "headrace_consumer_pending_events{"
    await until("the consumers are known", lambda: running.metrics.count(pending) == len(names))
    # The watch has caught up.
    await asyncio.sleep(1.0)


async def test_a_request_at_a_receive_that_sleeps_wakes_its_one_channel_and_nothing_else_does(
    operator: Start, api: Api, namespace: str, nats_server: NatsServer, hook: Hook, relay: ApiRelay, forward: Place
) -> None:
    async with Nats(nats_server.url) as nats:
        orders = await served(nats)
    answers(hook, namespace, orders=orders)
    first = await Revision(api, namespace).make(0)
    running = operator(FORWARD_URL=forward.uri, OPERATOR_SWEEP="60s")
    await known(running, api, namespace, "orders")
    await none_more(forward, 0)

    await first.scale(1)
    [lease] = await forward.wait(1)
    assert json.loads(lease.body)["consumer"] == orders[1]
    await first.scale(2)
    await first.scale(0)
    await none_more(forward, 1)
    await first.scale(1)
    await forward.wait(2)

    # A new revision begins with a pod, and the old one loses its own.
    second = await Revision(api, namespace, 2).make(1)
    await first.scale(0)
    await second.scale(0)
    await none_more(forward, 2)

    # What happened while the API server was away is not now.
    await relay.close()
    await second.scale(1)
    since = len(relay.asked)
    await relay.open()
    await until("the watches are up again", lambda: len(relay.of("watch", "deployments", since)) == 2)
    await none_more(forward, 2)
    await second.scale(0)
    await second.scale(1)
    await forward.wait(3)

    # Who begins while it is up learns nothing from that.
    await asyncio.to_thread(running.stop)
    later = operator(FORWARD_URL=forward.uri, OPERATOR_SWEEP="60s")
    await later.leads()
    await none_more(forward, 3)


async def test_of_channels_that_share_a_receive_only_those_are_woken_that_ask_for_it(
    operator: Start, api: Api, namespace: str, nats_server: NatsServer, hook: Hook, forward: Place
) -> None:
    async with Nats(nats_server.url) as nats:
        streams = {"orders": await served(nats), "bills": await served(nats, wake="early"), "mail": await served(nats)}
    answers(hook, namespace, **streams)
    receive = await Revision(api, namespace).make(0)
    await known(operator(FORWARD_URL=forward.uri, OPERATOR_SWEEP="60s"), api, namespace, *streams)

    await receive.scale(1)
    await forward.wait(1)
    await none_more(forward, 1)
    assert json.loads(forward.received[0].body)["consumer"] == streams["bills"][1]
