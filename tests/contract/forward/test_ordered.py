"""`ordered`: one event at a time in the order of the stream, whoever pulls; a retry holds the line.

And what `reconcile` makes of the annotations on a real server.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.nats.action import CreateConsumer
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from headrace.reconcile import reconcile
from tests.support.functions.channels import channel, entry
from tests.support.functions.functions import Function
from tests.support.functions.ordering import serve_ordered
from tests.support.functions.reconciling import NOON, Hook
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.streams import Nats

pytest_plugins = ["tests.support.functions.served"]

STREAM, DURABLE = "KN_SHOP__ORDERS", "KN_SUB_AAAA1"
PINNED = {"priority_groups": ["headrace"], "priority_policy": "pinned_client", "priority_timeout": 5_000_000_000}


async def test_events_go_one_by_one_whatever_a_lease_may_hold(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.01))
    lane = await serve_ordered(nats, forward, subscriber=place.uri)
    ids = [str(number) for number in range(20)]
    await lane.store(*ids)
    # Who waits while the other has the one event in hand gets nothing; a busy machine takes its time with each.
    answers = await asyncio.gather(lane.lease(linger=2), lane.lease(linger=2))
    assert sum(answer["delivered"] for answer in answers) == 20
    assert (place.ids, place.most_at_once) == (ids, 1)


async def test_a_retry_holds_the_line(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(503), Say(503), Say(202))
    policy = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT0.2S"}
    lane = await serve_ordered(nats, forward, subscriber=place.uri, policy=policy)
    await lane.store("1", "2")
    await lane.lease(linger=1)
    assert place.ids == ["1", "1", "1", "2"]


async def test_parking_frees_the_line(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(400), Say(202))
    lane = await serve_ordered(nats, forward, subscriber=place.uri)
    await lane.store("1", "2")
    answer = await lane.lease(linger=0.3)
    assert (answer["parked"], answer["delivered"], place.ids) == (1, 1, ["1", "2"])


# ── what reconcile makes of it ──────────────────────────────────────────────────────────────────────────────────────


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    keys = ("max_ack_pending", *PINNED)
    return {key: config[key] for key in keys if config.get(key)}


async def test_the_consumer_follows_the_annotation_back_and_forth(connection: Client) -> None:
    hook = Hook(connection)
    for order, then in (
        ("ordered", {"max_ack_pending": 1}),
        ("by-key", {"max_ack_pending": 10_000, **PINNED}),
        ("ordered", {"max_ack_pending": 1}),
        ("by-key", {"max_ack_pending": 10_000, **PINNED}),
        ("unordered", {"max_ack_pending": 10_000}),
    ):
        answer = await hook.sync(channel(entry(), annotations={"headrace.dev/delivery-order": order}))
        assert answer["status"]["subscribers"][0]["ready"] == "True"
        config = await hook.consumer(STREAM, DURABLE)
        assert config is not None
        assert _settings(config) == then
        await hook.sync(channel(entry(), annotations={"headrace.dev/delivery-order": order}))
        assert hook.changes == []


class OldServer(Admin):
    """NATS 2.10: drops what it does not know, without a word."""

    async def carry_out(self, action: Any) -> Any:
        if isinstance(action, CreateConsumer):
            kept = {key: value for key, value in action.config.items() if key not in PINNED}
            action = CreateConsumer(action.stream, kept)
        return await super().carry_out(action)


async def test_a_server_that_can_not_keep_the_order_is_told_of(connection: Client) -> None:
    parent = channel(entry(), annotations={"headrace.dev/delivery-order": "by-key"})
    asked = {"controller": {}, "parent": parent, "children": {}, "related": {}, "finalizing": False}
    calls = JetStreamApi(connection)
    api = OldServer(calls, JetStream(connection, calls))
    answer = await reconcile("sync", json.dumps(asked).encode(), api=api, settings=ReconcileSettings(), now=NOON)
    [subscriber] = answer["status"]["subscribers"]
    assert subscriber["ready"] == "False"
    assert "NATS 2.11 or later" in subscriber["message"]
