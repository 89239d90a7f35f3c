"""Whose tokens a subscriber gets: those of the account that a live Subscription of its own channel names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.channel import consumer, identities, truth
from headrace.core.channel.consumer import Row
from headrace.core.channel.hook import HookRequest
from headrace.core.channel.lease_places import LeasePlaces, SenderIdentity
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.subscriber import Destination, SubscriberState, from_json
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry

AUTH = {"serviceAccountName": "billing-oidc"}
ASKS = {"auth": AUTH, "subscriberAudience": "billing"}
THEIRS = Subscription("aaaa-1", "shop", "billing", channel=("shop", "orders"), account="billing-oidc")


def row(subscription: Subscription | None = THEIRS, *, tokens: bool = True, **fields: Any) -> Row:
    known = Truth({} if subscription is None else {subscription.uid: subscription}, tokens=tokens)
    parsed = manifest.parse(channel(entry("aaaa-1", "billing", **fields)))
    (found,) = consumer.rows(parsed, "KN_SHOP__ORDERS", known)
    assert found.subscriber is not None
    return found


def test_its_metadata_has_the_audiences_and_the_account_and_no_token() -> None:
    sink = {"uri": "http://dead/", "audience": "dead"}
    asked = row(**ASKS, replyUri="http://reply/", replyAudience="billing", delivery={"deadLetterSink": sink})

    subscriber = asked.subscriber
    assert subscriber is not None
    assert (subscriber.state, subscriber.reason) == (SubscriberState.READY, "")
    assert (subscriber.service_account, subscriber.audiences) == ("billing-oidc", ("billing", "dead"))
    assert subscriber.dead_letter == Destination("http://dead/", audience="dead")
    assert from_json(subscriber.to_json()) == subscriber
    assert asked.auth == AUTH


def test_an_identity_that_no_address_asks_for_changes_nothing_of_the_consumer() -> None:
    assert row(auth=AUTH).subscriber == row().subscriber
    assert row(auth=AUTH).auth == AUTH


@pytest.mark.parametrize(
    ("subscription", "words"),
    [
        pytest.param(None, "no Subscription of this channel with its uid names it", id="no Subscription is seen"),
        pytest.param(replace(THEIRS, account=""), "no Subscription of this channel", id="it names none"),
        pytest.param(replace(THEIRS, going=True), "no Subscription of this channel", id="it is going"),
        pytest.param(
            replace(THEIRS, channel=("shop", "bills")), "no Subscription of this channel", id="it is another channel's"
        ),
        pytest.param(replace(THEIRS, account="admin"), "but its Subscription names 'admin'", id="it names another"),
    ],
)
def test_an_account_that_its_subscription_does_not_name_is_refused(
    subscription: Subscription | None, words: str
) -> None:
    found = row(subscription, **ASKS).subscriber
    assert found is not None
    assert (found.state, found.service_account) == (SubscriberState.REFUSED, "")
    assert words in found.reason


def test_where_nobody_makes_tokens_an_entry_that_asks_for_one_is_refused_and_others_are_not() -> None:
    refused = row(tokens=False, **ASKS).subscriber
    assert refused is not None
    assert refused.state is SubscriberState.REFUSED
    assert refused.reason.startswith("OIDCNotPossible: spec.subscribers[0] has an audience, and tokens are made by")
    other = row(tokens=False, auth=AUTH).subscriber
    assert other is not None
    assert other.state is SubscriberState.READY


def test_an_identity_is_proved_by_the_subscription_and_never_by_metadata() -> None:
    served = row(**ASKS).subscriber
    assert served is not None
    forged = replace(served, service_account="admin")
    elsewhere = replace(THEIRS, namespace="other")
    across = replace(served, subscription_namespace="other")

    def found(one: Any, known: Subscription) -> dict[str, SenderIdentity]:
        return identities.proved([("C", one)], Truth({known.uid: known}))

    assert found(served, THEIRS) == {"C": SenderIdentity("shop", "billing-oidc", ("billing",))}
    assert found(across, elsewhere) == {"C": SenderIdentity("other", "billing-oidc", ("billing",))}
    assert found(forged, THEIRS) == {}
    # Metadata that names another namespace than the Subscription's own.
    assert found(across, THEIRS) == {}
    assert found(replace(served, subscriber=Destination("http://billing/")), THEIRS) == {}
    assert found(replace(served, state=SubscriberState.GONE), THEIRS) == {}


def test_the_account_is_read_from_the_status_of_the_subscription() -> None:
    known = {
        "metadata": {"uid": "aaaa-1", "namespace": "shop", "name": "billing"},
        "spec": {"channel": {"name": "orders"}},
        "status": {"auth": AUTH},
    }
    broken = {**known, "metadata": {"uid": "bbbb-2", "namespace": "shop", "name": "mail"}, "status": {"auth": "x"}}
    request = HookRequest(channel(), related={truth.KIND: {"billing": known, "mail": broken}})

    found = truth.of_request(request).subscriptions
    assert (found["aaaa-1"].account, found["bbbb-2"].account) == ("billing-oidc", "")


@pytest.mark.parametrize("known", [{}, None, {"C": SenderIdentity("shop", "billing-oidc", ("billing", "dead"))}])
def test_identities_survive_the_hooks_answer(known: dict[str, SenderIdentity] | None) -> None:
    places = LeasePlaces("KN_SHOP__ORDERS", identities=known)
    assert LeasePlaces.from_json(places.to_json()) == places


def test_an_answer_of_an_earlier_version_knows_no_identities() -> None:
    assert LeasePlaces.from_json({"stream": "S", "receive": "", "forwards": {}}).identities == {}
