"""What `reconcile` makes of a channel on a real server where it knows the Subscriptions, while the list lies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import nats.aio.client
import pytest

from headrace.core.delivery.subscriber import SubscriberState
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition

STREAM = "KN_SHOP__ORDERS"
BILLING, MAIL = "KN_SUB_AAAA1", "KN_SUB_BBBB2"


def subscription(uid: str, name: str, generation: int = 1, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "namespace": "shop", "name": name, "generation": generation, **metadata},
        "spec": {"channel": {"kind": "Channel", "name": "orders"}},
    }


ONE, TWO = subscription("aaaa-1", "billing"), subscription("bbbb-2", "mail")


@pytest.fixture
async def hook(connection: Client, stranger: nats.aio.client.Client) -> Hook:
    """A channel with two subscribers, of which billing has had three events of five."""
    hook = Hook(connection, RECONCILE_GONE_GRACE=timedelta(seconds=60))
    await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")), [ONE, TWO])
    jetstream = stranger.jetstream()
    for number in range(5):
        await jetstream.publish("shop.orders._knative", str(number).encode())
    pulled = await jetstream.pull_subscribe_bind(BILLING, STREAM)
    for message in await pulled.fetch(3, timeout=30):
        await message.ack_sync()
    return hook


async def position(hook: Hook) -> int:
    info = await hook.api.call(f"CONSUMER.INFO.{STREAM}.{BILLING}")
    return int(info["ack_floor"]["stream_seq"])


async def test_a_vanished_entry_of_a_live_subscription_changes_nothing(hook: Hook) -> None:
    answer = await hook.sync(channel(entry("bbbb-2", "mail")), [ONE, TWO])

    assert hook.changes == []
    # Two events wait, so somebody has to look again.
    assert answer["resyncAfterSeconds"] == 30.1
    assert [row["lag"] for row in answer["status"]["consumers"]] == [5, 2]
    # Its row stays, or Knative would call the Subscription unready for the moment.
    assert {row["uid"]: row["ready"] for row in answer["status"]["subscribers"]} == {"aaaa-1": "True", "bbbb-2": "True"}


async def test_a_leftover_is_asked_for_then_taken_out_and_its_consumer_goes_after_the_grace(hook: Hook) -> None:
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))
    question = {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "namespace": "shop",
        "name": "billing",
        "uid": "aaaa-1",
    }

    asked = await hook.sync(parent, [TWO])
    assert asked["headrace"]["verify"] == [question]
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert subscriber.state is SubscriberState.GONE
    assert asked["status"]["subscribers"][0]["ready"] == "Unknown"
    assert condition(asked, "Ready")["status"] == "True"

    pruned = await hook.sync(parent, [TWO], absent=["aaaa-1"])
    assert pruned["headrace"]["prune"] == ["aaaa-1"]
    assert pruned["status"]["subscribers"][0]["ready"] == "False"

    hook.later(61)
    over = await hook.sync(channel(entry("bbbb-2", "mail")), [TWO])
    assert over["headrace"]["verify"] == [question]
    assert await hook.durables(STREAM) == [BILLING, MAIL]
    assert over["resyncAfterSeconds"] == pytest.approx(30, abs=1)

    await hook.sync(channel(entry("bbbb-2", "mail")), [TWO], absent=["aaaa-1"])
    assert await hook.durables(STREAM) == [MAIL]


async def test_a_trigger_that_changes_keeps_its_position_whatever_the_list_says_meanwhile(hook: Hook) -> None:
    again = subscription("cccc-3", "billing")
    lists = [
        [entry("aaaa-1"), entry("bbbb-2", "mail")],
        [entry("bbbb-2", "mail")],
        [entry("aaaa-1"), entry("cccc-3")],
        [],
        [entry("cccc-3"), entry("bbbb-2", "mail"), entry("aaaa-1")],
    ]

    for entries in lists:
        answer = await hook.sync(channel(*entries), [again, TWO])
        hook.later(0.1)

    assert await hook.durables(STREAM) == [BILLING, MAIL]
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert (subscriber.uid, subscriber.state) == ("cccc-3", SubscriberState.READY)
    assert await position(hook) == 3
    assert [row["ready"] for row in answer["status"]["subscribers"]] == ["True", "True", "Unknown"]


async def test_the_annotations_of_a_subscription_reach_its_consumer(hook: Hook) -> None:
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))

    await hook.sync(parent, [subscription("aaaa-1", "billing", annotations={"headrace.dev/max-scale": "9"}), TWO])
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert subscriber.max_scale == 9

    wrong = subscription("aaaa-1", "billing", annotations={"headrace.dev/max-scale": "many"})
    answer = await hook.sync(parent, [wrong, TWO])
    billing, mail = answer["status"]["subscribers"]
    assert (billing["ready"], mail["ready"]) == ("False", "True")
    assert "metadata.annotations[headrace.dev/max-scale] is 'many'" in billing["message"]


async def test_an_entry_that_asks_for_tokens_is_not_ready_with_the_reason(hook: Hook) -> None:
    parent = channel(entry("aaaa-1", subscriberAudience="aud"), entry("bbbb-2", "mail"))

    answer = await hook.sync(parent, [ONE, TWO])

    # This caller of the hook says nothing of tokens, as a stock Metacontroller and `headrace up`.
    assert answer["status"]["subscribers"][0]["message"].startswith("OIDCNotPossible: ")
