"""Which consumers are served, and the answer to a lease on another one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.delivery.admission import admit
from headrace.core.delivery.order_spec import GROUP, DeliveryOrder, OrderSpec
from headrace.core.delivery.subscriber import METADATA_KEY, Destination, Subscriber, SubscriberState
from headrace.core.http import Response

READY = Subscriber(
    namespace="shop",
    channel="orders",
    name="billing",
    uid="aaaa-1",
    generation=1,
    aside="KN_SHOP__ORDERS_aside",
    subscription_namespace="shop",
    subscriber=Destination("http://billing/"),
)
BY_KEY = replace(READY, order=OrderSpec(DeliveryOrder.BY_KEY, "partitionkey"))
PINNED = {"priority_policy": "pinned_client", "priority_groups": [GROUP]}


def config(subscriber: Subscriber, **more: Any) -> dict[str, Any]:
    return {"metadata": {METADATA_KEY: subscriber.to_json()}, **more}


@pytest.mark.parametrize(
    ("subscriber", "more"),
    [pytest.param(READY, {}, id="a plain one"), pytest.param(BY_KEY, PINNED, id="by key, as the server holds it")],
)
def test_a_consumer_of_ours_is_served_as_its_metadata_says(subscriber: Subscriber, more: dict[str, Any]) -> None:
    assert admit("c", config(subscriber, **more)) == subscriber


@pytest.mark.parametrize(
    ("given", "title", "words"),
    [
        pytest.param({}, "Not our consumer", "'c' was not made by Headrace", id="without metadata"),
        pytest.param({"metadata": {METADATA_KEY: "{"}}, "Damaged consumer", "damaged", id="damaged"),
        pytest.param(
            config(replace(READY, state=SubscriberState.GONE)),
            "Not deliverable",
            "the Subscription is gone",
            id="its Subscription is gone",
        ),
        pytest.param(
            config(replace(READY, reply=Destination("http://billing/", audience="billing"))),
            "Not deliverable",
            "no token for 'billing' came with the lease",
            id="an address that asks for a token",
        ),
        pytest.param(config(BY_KEY), "Not deliverable", "NATS 2.11", id="by key, and the server does not hold it"),
    ],
)
def test_any_other_is_refused_and_the_answer_says_why(given: dict[str, Any], title: str, words: str) -> None:
    answer = admit("c", given)
    assert isinstance(answer, Response)
    problem = json.loads(answer.body)
    assert (answer.status, problem["title"]) == (409, title)
    assert words in problem["detail"]
