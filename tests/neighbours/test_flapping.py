"""Subscriptions that flap, with Knative's own controller.

tests/control_plane/channels/test_flapping.py has a stand-in for it.

How often the list lied is printed (`-s`), not held: the races are Knative's, and differ from run to run.
"""

from __future__ import annotations

import time

from tests.control_plane.channel_manifests import API_VERSION, channel
from tests.neighbours.test_eventing import ready
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Subscriber
from tests.support.kube.crowd import Crowd, come_change_and_go
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.list_record import ListRecord
from tests.support.nats.nats_server import NatsServer


async def test_fifty_subscriptions_come_change_and_go_and_nobody_misses_an_event_or_gets_one_twice(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber, nats_server: NatsServer
) -> None:
    collection = CHANNELS.format(namespace=namespace)
    (await api.create(collection, channel("orders"))).unwrapped()
    address = (await ready(api, f"{collection}/orders"))["status"]["address"]["url"]
    ref = {"apiVersion": API_VERSION, "kind": "NatsJetStreamChannel", "name": "orders"}
    crowd, record = Crowd(api, namespace, ref, address, subscriber, headrace["forward"].metrics), ListRecord()

    began = time.monotonic()
    await come_change_and_go(crowd, nats_server.url, record.run(api, collection, "orders"))

    living = {one["metadata"]["uid"] for one in (await api.get(crowd.path)).unwrapped()["items"]}
    print(
        f"\n{len(crowd.sent)} events in {time.monotonic() - began:.0f} s, {len(record.versions)} lists: "
        f"{record.vanished(living)} live entries vanished, {record.fallen_back()} fell back, "
        f"{record.leftovers(living)} were left over at the end"
    )
