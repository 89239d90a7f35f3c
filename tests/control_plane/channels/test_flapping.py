"""Subscriptions that flap: fifty of one channel come, change and go while events flow, and a list of them that lies.

Real are the API server, the nats-server, the operator, the three functions and the subscribers. Knative's Subscription
controller is a stand-in with the races that were measured of it; `tests/neighbours` does the same with the real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.control_plane.channel_manifests import API_VERSION, channel
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Subscriber
from tests.support.kube.crowd import Crowd, beside, come_change_and_go, consumers
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.subscription_controller import SubscriptionController
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
GRACE = "5s"


@pytest.fixture
def functions(nats_server: NatsServer, tmp_path: Path) -> Iterator[dict[str, Function]]:
    """Running; a consumer outlives its Subscription by little, so that the end of it is in the test."""
    found = {
        "receive": Function("receive", nats_server.url, tmp_path),
        "forward": Function("forward", nats_server.url, tmp_path, METRICS_PORT=str(free_port())),
    }
    found["reconcile"] = Function("reconcile", nats_server.url, tmp_path, RECONCILE_GONE_GRACE=GRACE)
    try:
        for function in found.values():
            function.start()
        yield found
    finally:
        for function in found.values():
            function.stop()


@pytest.fixture
async def orders(
    operator: Start, api: Api, namespace: str, functions: dict[str, Function], subscriber: Subscriber
) -> Crowd:
    """A channel that has its address, with nobody yet."""
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    (await api.apply(path, channel("orders"), manager="kubectl")).unwrapped()
    # All namespaces, or it could not know that it sees every Subscription.
    operator(
        hook=functions["reconcile"].url,
        FORWARD_URL=functions["forward"].url,
        WATCH_NAMESPACE="",
        OPERATOR_LEASE=namespace,
    )

    async def has_address() -> bool:
        return bool(((await api.get(path)).unwrapped().get("status") or {}).get("address"))

    await until("the channel has an address", has_address, 60.0)
    ref = {"apiVersion": API_VERSION, "kind": "NatsJetStreamChannel", "name": "orders"}
    address = f"{functions['receive'].url}/{namespace}/orders"
    return Crowd(api, namespace, ref, address, subscriber, functions["forward"].metrics)


async def test_fifty_subscriptions_come_change_and_go_and_nobody_misses_an_event_or_gets_one_twice(
    orders: Crowd, nats_server: NatsServer
) -> None:
    controller = SubscriptionController(orders.api, orders.namespace, "orders")
    await come_change_and_go(orders, nats_server.url, controller.run())
    assert min(controller.vanished, controller.fallen_back, controller.come_back) > 0, "the list did not lie"


async def test_a_trigger_that_is_made_anew_under_load_loses_nothing(orders: Crowd, nats_server: NatsServer) -> None:
    controller = SubscriptionController(orders.api, orders.namespace, "orders")
    async with beside(controller.run(), orders.watch()):
        await orders.join("trigger")
        await orders.all_ready(["trigger"])
        births = await consumers(nats_server.url, orders.stream)

        async def is_made_anew() -> None:
            for _ in range(5):
                await orders.come_again("trigger")

        await asyncio.gather(orders.flow("fast", 500), is_made_anew())
        await orders.settled()
        await orders.ledger_is_full()
    assert await consumers(nats_server.url, orders.stream) == births
