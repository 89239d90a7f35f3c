"""Consumers on their way out: those about which the API server can't be asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.core.channel.leaving import LeavingTerms, forget, see_off
from headrace.core.channel.own_consumer import OwnConsumer
from headrace.core.channel.truth import Truth
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.nats.action import DeleteConsumer
from tests.support.kube.flapping import GRACE, NOON, PLACE, STREAM

DURABLE = "KN_SUB_AAAA1"
GONE = Subscriber(
    namespace="shop",
    channel="orders",
    name="billing",
    uid="aaaa-1",
    generation=1,
    aside="",
    state=SubscriberState.GONE,
    gone_since=(NOON - timedelta(hours=1)).isoformat(),
)
TERMS = LeavingTerms(PLACE, ConsumerTemplate(), (), GRACE, NOON, Truth(complete=True))


def test_a_consumer_beyond_its_grace_goes_when_the_api_server_has_been_asked_for_its_subscription() -> None:
    leaver = see_off(OwnConsumer(DURABLE, {}, GONE), TERMS)

    assert leaver.question is not None
    assert (leaver.question.namespace, leaver.question.name) == ("shop", "billing")
    assert leaver.actions == ()


def test_one_whose_subscription_has_no_name_goes_without_the_question_which_would_be_for_all_of_them() -> None:
    leaver = see_off(OwnConsumer(DURABLE, {}, replace(GONE, name="")), TERMS)

    assert leaver.question is None
    assert leaver.actions == (DeleteConsumer(STREAM, DURABLE), forget(PLACE, DURABLE))
