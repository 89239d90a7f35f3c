"""Streams and consumers of the Go channel are taken over while events flow: nothing is lost.

They are made as it makes them (tests/support/nats/go_channel.py).
"""

from __future__ import annotations

import nats.aio.client
import pytest

from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.go_channel import DELIVER, OURS, RETENTION, STREAM, THEIRS, GoChannel
from tests.support.waiting import until


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


@pytest.fixture
def peer(hook: Hook, stranger: nats.aio.client.Client) -> GoChannel:
    return GoChannel(hook, stranger)


async def served(hook: Hook, durable: str) -> Subscriber:
    found = await hook.subscriber(STREAM, durable)
    assert found is not None
    return found


@pytest.mark.parametrize(("retention", "durable"), [("limits", OURS), ("interest", OURS), ("workqueue", THEIRS)])
async def test_a_push_consumer_is_replaced_where_it_ended_while_events_flow(
    hook: Hook, peer: GoChannel, retention: str, durable: str
) -> None:
    parent = channel(entry("aaaa-1"), stream=stream(retention=RETENTION[retention]))
    await peer.make(retention, deliver_subject=DELIVER, deliver_group=THEIRS, max_deliver=3)

    async with peer.publishing():
        async with peer.dispatching(every=3):
            await until("the dispatcher has acknowledged some", lambda: len(peer.acked) > 5, 30)
        await peer.unbound()
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


async def test_one_that_has_acknowledged_nothing_is_replaced_at_its_own_begin(hook: Hook, peer: GoChannel) -> None:
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
    hook: Hook, peer: GoChannel
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
    await peer.unbound()

    over = await hook.sync(parent)
    assert "PeerTakenOver" not in {one["type"] for one in over["status"]["conditions"]}
    assert await peer.pulled(OURS) == []


async def test_a_pull_consumer_of_the_peer_becomes_ours_with_its_position(hook: Hook, peer: GoChannel) -> None:
    await peer.make("limits", max_deliver=3, max_ack_pending=50)
    await peer.publish(5)
    bound = await peer._connection.jetstream().pull_subscribe_bind(THEIRS, STREAM)
    for message in await bound.fetch(2, timeout=30):
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


async def test_a_take_over_that_broke_off_is_brought_to_its_end(hook: Hook, peer: GoChannel) -> None:
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


async def test_what_the_peer_left_of_others_is_not_touched(hook: Hook, peer: GoChannel) -> None:
    await peer.make("limits", deliver_subject=DELIVER, deliver_group=THEIRS)

    await hook.sync(channel(entry("bbbb-2", "mail")))
    await hook.finalize(channel())

    assert await hook.durables(STREAM) == [THEIRS]
