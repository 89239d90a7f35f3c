"""Streams and consumers of the Go channel are taken over while events flow: nothing is lost.

They are made here as it makes them: structured CloudEvents, `KN_SUB_<UID>`, a deliver group of the same name.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats.aio.client
import pytest
from nats.aio.msg import Msg

from headrace.core.subscriber import Subscriber, SubscriberState
from headrace.io.client import Client
from tests.support.channels import channel, entry, stream
from tests.support.reconciling import Hook, condition
from tests.support.waiting import until

STREAM, SUBJECT = "KN_SHOP__ORDERS", "shop.orders._knative"
THEIRS, OURS = "KN_SUB_AAAA1", "KN_SUB_AAAA1_pull"
DELIVER = "shop.orders._knative_consumer.aaaa1"
RETENTION = {"limits": "Limits", "interest": "Interest", "workqueue": "Work"}


class Peer:
    """What the Go channel leaves on a server, and its dispatcher while it runs."""

    def __init__(self, hook: Hook, connection: nats.aio.client.Client) -> None:
        self._hook = hook
        self._connection = connection
        self.published: list[int] = []
        self.acked: set[int] = set()
        self.busy = True

    async def make(self, retention: str, **consumer: Any) -> None:
        config = {"name": STREAM, "subjects": [SUBJECT], "retention": retention, "storage": "file", "num_replicas": 1}
        await self._hook.api.call(f"STREAM.CREATE.{STREAM}", config)
        durable = {
            "durable_name": THEIRS,
            "name": THEIRS,
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "replay_policy": "instant",
            "ack_wait": 30_000_000_000,
            **consumer,
        }
        body = {"stream_name": STREAM, "config": durable}
        await self._hook.api.call(f"CONSUMER.CREATE.{STREAM}.{THEIRS}", body)

    async def publish(self, count: int) -> None:
        for _ in range(count):
            number = len(self.published)
            event = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", "data": number}
            ack = await self._connection.jetstream().publish(
                SUBJECT, json.dumps(event).encode(), headers={"Nats-Msg-Id": str(number)}
            )
            assert ack.stream == STREAM
            self.published.append(number)

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """Events flow all the while."""
        task = asyncio.create_task(self._flow())
        try:
            yield
        finally:
            self.busy = False
            await task

    @asynccontextmanager
    async def dispatching(self, every: int = 1) -> AsyncIterator[None]:
        """Its dispatcher gets messages pushed, and acknowledges one out of so many."""

        async def deliver(message: Msg) -> None:
            number = json.loads(message.data)["data"]
            if number % every == 0:
                # Noted first: the dispatcher may be stopped while it waits for the server's word.
                self.acked.add(number)
                await message.ack_sync()

        subscription = await self._connection.subscribe(DELIVER, queue=THEIRS, cb=deliver)
        try:
            await self._connection.flush()
            yield
        finally:
            await subscription.unsubscribe()
            await self._connection.flush()

    async def pulled(self, durable: str) -> list[int]:
        """All that our consumer delivers, settled."""
        bound = await self._connection.jetstream().pull_subscribe_bind(durable, STREAM)
        found: list[int] = []
        async with asyncio.timeout(60):
            while await self._left(durable):
                for message in await bound.fetch(50, timeout=10):
                    found.append(json.loads(message.data)["data"])
                    await message.ack_sync()
        return found

    async def _left(self, durable: str) -> int:
        info = await self._hook.api.call(f"CONSUMER.INFO.{STREAM}.{durable}")
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def _flow(self) -> None:
        while self.busy:
            await self.publish(1)


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


@pytest.fixture
def peer(hook: Hook, stranger: nats.aio.client.Client) -> Peer:
    return Peer(hook, stranger)


async def served(hook: Hook, durable: str) -> Subscriber:
    found = await hook.subscriber(STREAM, durable)
    assert found is not None
    return found


async def unbound(hook: Hook) -> None:
    """Wait until the server has noticed that nobody is there any more."""

    async def idle() -> bool:
        info = await hook.api.call(f"CONSUMER.INFO.{STREAM}.{THEIRS}")
        return not info.get("push_bound")

    await until("the dispatcher is gone", idle, 30)


@pytest.mark.parametrize(("retention", "durable"), [("limits", OURS), ("interest", OURS), ("workqueue", THEIRS)])
async def test_a_push_consumer_is_replaced_where_it_ended_while_events_flow(
    hook: Hook, peer: Peer, retention: str, durable: str
) -> None:
    parent = channel(entry("aaaa-1"), stream=stream(retention=RETENTION[retention]))
    await peer.make(retention, deliver_subject=DELIVER, deliver_group=THEIRS, max_deliver=3)

    async with peer.publishing():
        async with peer.dispatching(every=3):
            await until("the dispatcher has acknowledged some", lambda: len(peer.acked) > 5, 30)
        await unbound(hook)
        answer = await hook.sync(parent)
        flown = len(peer.published)
        await until("events flow on", lambda: len(peer.published) > flown + 5, 30)

    assert await hook.durables(STREAM) == [durable]
    assert answer["status"]["consumers"][0]["durable"] == durable
    assert answer["status"]["subscribers"] == [{"uid": "aaaa-1", "observedGeneration": 1, "ready": "True"}]
    pulled = await peer.pulled(durable)
    assert set(peer.published) - peer.acked - set(pulled) == set()
    assert len(pulled) == len(set(pulled))
    assert 0 not in pulled, "what was settled in the beginning came again"
    hook.later(60)
    again = await hook.sync(parent)
    assert hook.changes == []
    assert again["status"]["subscribers"] == answer["status"]["subscribers"]


async def test_one_that_has_acknowledged_nothing_is_replaced_at_its_own_begin(hook: Hook, peer: Peer) -> None:
    await peer.make("limits", deliver_subject="unused")
    await peer.publish(3)
    await hook.api.call(f"CONSUMER.DELETE.{STREAM}.{THEIRS}")
    only_new = {"durable_name": THEIRS, "name": THEIRS, "ack_policy": "explicit", "deliver_policy": "new"}
    push = {"deliver_subject": DELIVER, "deliver_group": THEIRS}
    body = {"stream_name": STREAM, "config": {**only_new, **push}}
    await hook.api.call(f"CONSUMER.CREATE.{STREAM}.{THEIRS}", body)
    await peer.publish(2)

    await hook.sync(channel(entry("aaaa-1")))

    assert await peer.pulled(OURS) == [3, 4]


async def test_a_consumer_that_the_peer_still_delivers_from_is_left_alone_until_it_stops(
    hook: Hook, peer: Peer
) -> None:
    await peer.make("limits", deliver_subject=DELIVER, deliver_group=THEIRS)
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))

    async with peer.dispatching():
        answer = await hook.sync(parent)
        assert await hook.durables(STREAM) == [THEIRS, "KN_SUB_BBBB2"]
        billing, mail = answer["status"]["subscribers"]
        assert (billing["ready"], mail["ready"]) == ("Unknown", "True")
        told = condition(answer, "PeerTakenOver")
        assert (told["status"], told["severity"], told["reason"]) == ("False", "Info", "PeerStillDelivers")
        assert "shop/billing" in told["message"]
        assert condition(answer, "Ready")["status"] == "True"
        assert answer["resyncAfterSeconds"] == pytest.approx(10, abs=1)
        await peer.publish(5)
        await until("the dispatcher has acknowledged all", lambda: len(peer.acked) == 5, 30)
    await unbound(hook)

    over = await hook.sync(parent)
    assert "PeerTakenOver" not in {one["type"] for one in over["status"]["conditions"]}
    assert await peer.pulled(OURS) == []


async def test_a_pull_consumer_of_the_peer_becomes_ours_with_its_position(hook: Hook, peer: Peer) -> None:
    await peer.make("limits", max_deliver=3, max_ack_pending=50)
    await peer.publish(5)
    bound = await peer._connection.jetstream().pull_subscribe_bind(THEIRS, STREAM)
    for message in await bound.fetch(2, timeout=5):
        await message.ack_sync()

    answer = await hook.sync(channel(entry("aaaa-1")))

    assert await hook.durables(STREAM) == [THEIRS]
    assert (await served(hook, THEIRS)).state is SubscriberState.READY
    made = await hook.consumer(STREAM, THEIRS)
    assert made is not None
    assert (made["ack_wait"], made["max_deliver"], made["max_ack_pending"]) == (8_000_000_000, -1, 10_000)
    assert answer["status"]["subscribers"] == [{"uid": "aaaa-1", "observedGeneration": 1, "ready": "True"}]
    assert await peer.pulled(THEIRS) == [2, 3, 4]
    await hook.sync(channel(entry("aaaa-1")))
    assert hook.changes == []


async def test_a_take_over_that_broke_off_is_brought_to_its_end(hook: Hook, peer: Peer) -> None:
    await peer.make("interest", deliver_subject=DELIVER, deliver_group=THEIRS)
    parent = channel(entry("aaaa-1"), stream=stream(retention="Interest"))
    await hook.sync(parent)
    body = {"durable_name": THEIRS, "name": THEIRS, "ack_policy": "explicit"}
    push = {**body, "deliver_subject": DELIVER, "deliver_group": THEIRS}
    await hook.api.call(f"CONSUMER.CREATE.{STREAM}.{THEIRS}", {"stream_name": STREAM, "config": push})
    await peer.publish(3)

    await hook.sync(parent)

    assert await hook.durables(STREAM) == [OURS]
    assert await peer.pulled(OURS) == [0, 1, 2]


async def test_what_the_peer_left_of_others_is_not_touched(hook: Hook, peer: Peer) -> None:
    await peer.make("limits", deliver_subject=DELIVER, deliver_group=THEIRS)

    await hook.sync(channel(entry("bbbb-2", "mail")))
    await hook.finalize(channel())

    assert await hook.durables(STREAM) == [THEIRS]
