"""Subscriptions that flap: fifty of one channel come, change and go while events flow, and a list of them that lies.

Real are the API server, the nats-server, the operator, the three functions and the subscribers. Knative's Subscription
controller is a stand-in with the races that were measured of it; `tests/neighbours` does the same with the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.control_plane.channel_manifests import API_VERSION, channel
from tests.support.crowd import Crowd, come_change_and_go
from tests.support.functions import Function
from tests.support.kube_api import CHANNELS, Api
from tests.support.nats_server import NatsServer
from tests.support.operator_process import OperatorProcess
from tests.support.subscriber import Subscriber
from tests.support.subscription_controller import SubscriptionController
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
GRACE = "5s"


@pytest.fixture
def functions(nats_server: NatsServer, tmp_path: Path) -> Iterator[dict[str, Function]]:
    """Running; a consumer outlives its Subscription by little, so that the end of it is in the test."""
    found = {name: Function(name, nats_server.url, tmp_path) for name in ("receive", "forward")}
    found["reconcile"] = Function("reconcile", nats_server.url, tmp_path, RECONCILE_GONE_GRACE=GRACE)
    try:
        for function in found.values():
            function.start()
        yield found
    finally:
        for function in found.values():
            function.stop()


async def test_fifty_subscriptions_come_change_and_go_and_nobody_misses_an_event_or_gets_one_twice(
    operator: Start,
    api: Api,
    namespace: str,
    functions: dict[str, Function],
    subscriber: Subscriber,
    nats_server: NatsServer,
) -> None:
    stream = f"KN_{namespace}__ORDERS".replace("-", "_").upper()
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    (await api.apply(path, channel("orders"), manager="kubectl")).unwrapped()
    # All namespaces, or it could not know that it sees every Subscription.
    operator(
        hook=functions["reconcile"].url,
        FORWARD_URL=functions["forward"].url,
        WATCH_NAMESPACE="",
        OPERATOR_LEASE=namespace,
    )
    ref = {"apiVersion": API_VERSION, "kind": "NatsJetStreamChannel", "name": "orders"}
    crowd = Crowd(api, namespace, ref, f"{functions['receive'].url}/{namespace}/orders", subscriber)
    controller = SubscriptionController(api, namespace, "orders")

    async def has_address() -> bool:
        return bool(((await api.get(path)).unwrapped().get("status") or {}).get("address"))

    await until("the channel has an address", has_address, 60.0)
    await come_change_and_go(crowd, path, (nats_server.url, stream), controller.run())
    assert min(controller.vanished, controller.fallen_back, controller.come_back) > 0, "the list did not lie"
