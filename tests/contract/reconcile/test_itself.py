"""A channel that would deliver to itself: `reconcile` has nothing sent, and tells its author why."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.delivery.subscriber import SubscriberState
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition

STREAM, BILLING, SHIPPING = "KN_SHOP__ORDERS", "KN_SUB_AAAA1", "KN_SUB_BBBB2"
OWN = "http://orders-kn-jsm-channel.shop.svc.cluster.local"
REF = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


@pytest.mark.parametrize("sink", [{"ref": REF}, {"uri": OWN}], ids=["by ref", "by address"])
async def test_a_dead_letter_sink_that_is_the_channel_itself_is_refused(hook: Hook, sink: dict[str, Any]) -> None:
    answer = await hook.sync(channel(entry(), delivery={"deadLetterSink": sink}))

    told = condition(answer, "DeadLetterSinkResolved")
    assert (told["status"], told["reason"]) == ("False", "DeadLetterSinkIsItself")
    assert "spec.delivery.deadLetterSink is the channel shop/orders itself" in told["message"]
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert (subscriber.state, subscriber.dead_letter) == (SubscriberState.REFUSED, None)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"subscriberUri": OWN}, "subscriberUri"),
        ({"subscriberUri": "http://billing/", "replyUri": f"{OWN}/"}, "replyUri"),
        ({"delivery": {"deadLetterSink": {"uri": OWN}}}, "delivery.deadLetterSink"),
    ],
)
async def test_who_would_send_to_the_channel_itself_is_not_delivered_to_and_the_others_are(
    hook: Hook, fields: dict[str, Any], field: str
) -> None:
    answer = await hook.sync(channel(entry(**fields), entry("bbbb-2", "shipping")))

    states = [await hook.subscriber(STREAM, durable) for durable in (BILLING, SHIPPING)]
    assert [one and one.state for one in states] == [SubscriberState.REFUSED, SubscriberState.READY]
    refused, ready = answer["status"]["subscribers"]
    assert refused["message"].startswith(f"spec.subscribers[0].{field} is the channel shop/orders itself: ")
    assert (refused["ready"], ready["ready"]) == ("False", "True")
