"""From an entry of `spec.subscribers` to the subscriber that its consumer's metadata holds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.channel import consumer, dead_letter, truth
from headrace.core.channel.consumer import Row
from headrace.core.channel.hook import HookRequest
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.subscriber import (
    BackoffPolicy,
    DeliveryPolicy,
    Destination,
    Subscriber,
    SubscriberState,
    from_json,
)
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.manifest.own_address import OwnAddress
from headrace.core.nats.stream import Owner
from tests.support.functions.channels import UID, channel, entry

OWNER = Owner("default", "shop", "orders", UID)


def rows(*entries: Any, **members: Any) -> tuple[Row, ...]:
    parsed = manifest.parse(channel(*entries, **members))
    sink = dead_letter.resolve(
        parsed.spec.delivery and parsed.spec.delivery.dead_letter_sink, {}, OwnAddress("shop", "orders", "local")
    )
    return consumer.rows(parsed, "KN_SHOP__ORDERS", sink=sink)


def only(*entries: Any, **members: Any) -> Subscriber:
    (row,) = rows(*entries, **members)
    assert row.subscriber is not None
    return row.subscriber


def template(**fields: Any) -> ConsumerTemplate:
    return manifest.parse(channel(consumerConfigTemplate=fields)).spec.consumer_config_template


def test_an_entry_becomes_a_subscriber() -> None:
    subscriber = only(
        entry(
            "aaaa-1",
            "billing",
            generation=4,
            subscriberUri="https://billing/",
            subscriberCACerts="PEM 1",
            replyUri="https://reply/",
            replyCACerts="PEM 2",
            delivery={
                "deadLetterSink": {"uri": "https://dead/", "CACerts": "PEM 3"},
                "retry": 3,
                "timeout": "PT10S",
                "backoffPolicy": "linear",
                "backoffDelay": "PT0.5S",
                "retryAfterMax": "PT30S",
            },
        ),
        annotations={"headrace.dev/lag-threshold": "50", "headrace.dev/max-scale": "9"},
        consumerConfigTemplate={"rateLimitBPS": 8_000_000},
    )

    assert subscriber == Subscriber(
        namespace="shop",
        channel="orders",
        name="billing",
        uid="aaaa-1",
        generation=4,
        aside="KN_SHOP__ORDERS_aside",
        subscription_namespace="shop",
        subscriber=Destination("https://billing/", "PEM 1"),
        reply=Destination("https://reply/", "PEM 2"),
        dead_letter=Destination("https://dead/", "PEM 3"),
        policy=DeliveryPolicy(
            retry=3,
            backoff_policy=BackoffPolicy.LINEAR,
            backoff_delay=timedelta(milliseconds=500),
            timeout=timedelta(seconds=10),
            retry_after_max=timedelta(seconds=30),
        ),
        rate_limit_bps=8_000_000,
        lag_threshold=50,
        max_scale=9,
    )


PATIENT = {"retry": 5, "backoffDelay": "PT1S", "deadLetterSink": {"uri": "http://channel-dead/"}}
CHANNEL_DEAD = Destination("http://channel-dead/")


@pytest.mark.parametrize(
    ("own", "channels", "retry", "sink"),
    [
        pytest.param(None, None, 0, None, id="nobody says anything: one attempt"),
        pytest.param(None, PATIENT, 5, CHANNEL_DEAD, id="the channel's fills what the entry does not have"),
        pytest.param({"retry": 1}, PATIENT, 1, CHANNEL_DEAD, id="the entry's counts, but for the sink"),
        pytest.param({}, PATIENT, 0, CHANNEL_DEAD, id="an empty delivery is one"),
        pytest.param(
            {"deadLetterSink": {"uri": "http://own-dead/"}},
            PATIENT,
            0,
            Destination("http://own-dead/"),
            id="the entry's own sink",
        ),
    ],
)
def test_the_channels_delivery_is_the_default(
    own: dict[str, Any] | None, channels: dict[str, Any] | None, retry: int, sink: Destination | None
) -> None:
    subscriber = only(entry(delivery=own), delivery=channels)

    assert subscriber.state is SubscriberState.READY
    assert subscriber.policy.retry == retry
    assert subscriber.dead_letter == sink


@pytest.mark.parametrize(
    ("of_entry", "of_subscription", "of_channel", "structured"),
    [
        pytest.param({}, None, {}, False, id="nobody asks"),
        pytest.param({"format": "json"}, None, {}, True, id="the entry"),
        pytest.param({"retry": 1}, {"format": "json"}, {}, True, id="its Subscription: Knative copies all else"),
        pytest.param({"retry": 1}, {}, {"format": "json"}, True, id="the channel, where the Subscription says nothing"),
        pytest.param({"retry": 1}, {"retry": 1}, {"format": "json"}, False, id="a Subscription's delivery excludes it"),
        pytest.param({"format": "binary"}, {"format": "json"}, {"format": "json"}, False, id="the entry is nearest"),
        pytest.param(None, None, {"format": "json"}, True, id="an entry by hand inherits the channel's"),
        pytest.param({"retry": 1}, None, {"format": "json"}, False, id="or has its own"),
    ],
)
def test_whose_format_counts(
    of_entry: dict[str, Any] | None,
    of_subscription: dict[str, Any] | None,
    of_channel: dict[str, Any],
    structured: bool,
) -> None:
    asked = {"delivery": of_entry} if of_entry is not None else {}
    known = truth.of_request(HookRequest({}, related=subscriptions(of_subscription)))
    parsed = manifest.parse(channel(entry("aaaa-1", **asked), delivery=of_channel))

    (row,) = consumer.rows(parsed, "KN_SHOP__ORDERS", known)

    assert row.subscriber is not None
    assert (row.subscriber.structured, row.subscriber.reason) == (structured, "")
    assert from_json(row.subscriber.to_json()) == row.subscriber


def subscriptions(delivery: dict[str, Any] | None) -> dict[str, Any]:
    if delivery is None:
        return {}
    spec = {"channel": {"name": "orders"}, **({"delivery": delivery} if delivery else {})}
    one = {"metadata": {"uid": "aaaa-1", "namespace": "shop", "name": "billing"}, "spec": spec}
    return {truth.KIND: {"billing": one}}


def test_without_a_word_on_delivery_the_defaults_are_ours() -> None:
    assert only(entry(delivery={"retry": 2})).policy == DeliveryPolicy(
        retry=2,
        backoff_policy=BackoffPolicy.EXPONENTIAL,
        backoff_delay=timedelta(milliseconds=200),
        timeout=timedelta(seconds=60),
        retry_after_max=timedelta(minutes=5),
    )


def test_a_reply_alone_is_enough() -> None:
    subscriber = only(entry(replyUri="http://reply/"))

    assert subscriber.state is SubscriberState.READY
    assert (subscriber.subscriber, subscriber.reply) == (None, Destination("http://reply/"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"subscriberUri": None}, "spec.subscribers[0] has neither subscriberUri nor replyUri"),
        ({"subscriberUri": ""}, "spec.subscribers[0] has neither subscriberUri nor replyUri"),
        (
            {"subscriberUri": "ftp://billing/"},
            "spec.subscribers[0].subscriberUri 'ftp://billing': only http and",
        ),
        ({"replyUri": "http://"}, "spec.subscribers[0].replyUri 'http://' has no host"),
        ({"subscriberUri": 5}, "spec.subscribers[0].subscriberUri is 5: it should be text"),
        ({"generation": "1"}, "spec.subscribers[0].generation is '1': it should be a whole number"),
        ({"delivery": {"retry": -1}}, "spec.subscribers[0].delivery.retry is -1"),
        ({"delivery": {"retry": 1_000_001}}, "spec.subscribers[0].delivery.retry is 1000001"),
        ({"delivery": {"timeout": "PT10M"}}, "spec.subscribers[0].delivery.timeout is 'PT10M': it should be more than"),
        (
            {"delivery": {"timeout": "PT5H"}},
            "spec.subscribers[0].delivery.timeout is 'PT5H': it should be more than zero and at most PT9M: it is for "
            "one request, not for all tries, which are retry's and backoffDelay's; a subscriber that works for longer "
            "answers 202 before",
        ),
        ({"delivery": {"timeout": "5s"}}, "spec.subscribers[0].delivery.timeout is '5s', which is not an ISO 8601"),
        (
            {"delivery": {"deadLetterSink": {"ref": {"kind": "Service", "name": "dead"}}}},
            "spec.subscribers[0].delivery.deadLetterSink has a ref only",
        ),
        (
            {"delivery": {"deadLetterSink": {"uri": "/dead"}}},
            "spec.subscribers[0].delivery.deadLetterSink.uri '/…' has no host",
        ),
        (
            {"subscriberAudience": "a"},
            "OIDCIdentityMissing: spec.subscribers[0].auth.serviceAccountName is not set, and it has the audience 'a'",
        ),
        (
            {"replyUri": "http://b/", "replyAudience": "a", "auth": {"serviceAccountNames": ["b"]}},
            "OIDCIdentityMissing: spec.subscribers[0].auth.serviceAccountName",
        ),
        (
            {"delivery": {"deadLetterSink": {"uri": "http://dead/", "audience": "a"}}},
            "OIDCIdentityMissing: spec.subscribers[0].auth.serviceAccountName",
        ),
        (
            {"auth": {"serviceAccountName": "oidc"}, "subscriberAudience": "a"},
            "OIDCIdentityUnknown: spec.subscribers[0].auth.serviceAccountName is 'oidc', but no Subscription of this "
            "channel with its uid names it",
        ),
    ],
)
def test_an_entry_that_can_not_be_delivered_to_is_refused_with_the_reason_and_keeps_its_consumer(
    fields: dict[str, Any], reason: str
) -> None:
    broken, healthy = rows({**entry("aaaa-1"), **fields}, entry("bbbb-2", "mail"))

    assert broken.subscriber is not None
    assert broken.subscriber.state is SubscriberState.REFUSED
    assert broken.subscriber.reason.startswith(reason)
    assert (broken.subscriber.uid, broken.subscriber.subscriber) == ("aaaa-1", None)
    assert healthy.subscriber is not None
    assert healthy.subscriber.state is SubscriberState.READY


@pytest.mark.parametrize("auth", [{"serviceAccountName": "billing-oidc"}, {"serviceAccountNames": ["a", "b"]}, {}])
def test_an_identity_without_an_audience_asks_for_no_token(auth: dict[str, Any]) -> None:
    """Where Knative's authentication-oidc is on every entry has one, and its own dispatcher sends no token either."""
    plain = only(entry(deadLetterSink={"uri": "http://dead/"}))

    assert only(entry(deadLetterSink={"uri": "http://dead/"}, auth=auth)) == plain
    assert plain.state is SubscriberState.READY


def test_a_ref_with_an_absolute_uri_is_that_uri() -> None:
    sink = {"ref": {"kind": "Service", "name": "dead"}, "uri": "http://dead/"}

    assert only(entry(delivery={"deadLetterSink": sink})).dead_letter == Destination("http://dead/")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"name": "billing"}, id="no uid"),
        pytest.param({"uid": 5}, id="a number for a uid"),
        pytest.param({"uid": "a.b"}, id="a uid that is no name to NATS"),
        pytest.param("billing", id="a word"),
        pytest.param(None, id="a null"),
    ],
)
def test_an_entry_without_a_uid_has_no_consumer_and_says_why(raw: object) -> None:
    broken, healthy = rows(raw, entry())

    assert broken.subscriber is None
    assert broken.problem.startswith("spec.subscribers[0].uid is ")
    assert healthy.subscriber is not None


def test_of_two_entries_with_one_uid_the_first_counts() -> None:
    first, second = rows(entry(subscriberUri="http://one/"), entry(subscriberUri="http://two/"))

    assert first.subscriber is not None
    assert second.subscriber is None
    problem = "which spec.subscribers[0] has already: the first entry counts"
    assert second.problem == f"spec.subscribers[1].uid is 'aaaa-1', {problem}"


def test_uids_that_name_one_consumer_are_one_uid_and_the_others_are_served() -> None:
    found = rows(entry("d-1"), entry("e-1"), entry("d-1"), entry("D-1"), entry("d1"), entry("D1-"))

    assert [row.uid for row in found if row.subscriber is not None] == ["d-1", "e-1"]
    assert {row.problem.partition("which ")[2] for row in found if row.subscriber is None} == {
        "spec.subscribers[0] has already: the first entry counts"
    }


@pytest.mark.parametrize("name", ["headrace.dev/lag-threshold", "headrace.dev/max-scale"])
@pytest.mark.parametrize("value", ["", "0", "-1", "many", "1.5", "1e3", "٣", "9" * 10])
def test_a_nonsensical_annotation_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        rows(annotations={name: value})

    assert refused.value.field == f"metadata.annotations[{name}]"
    assert f"is {value!r}: it should be a whole number from 1" in str(refused.value)


@pytest.mark.parametrize(
    ("trusted", "told"),
    [({"shop", "till"}, True), ({"shop"}, False), ({"till"}, False)],
    ids=["both", "not the Subscription's", "not the channel's"],
)
def test_answers_are_told_where_both_the_channels_and_the_subscriptions_namespace_may_read_them(
    trusted: set[str], told: bool
) -> None:
    truth = Truth({"aaaa-1": Subscription("aaaa-1", "till", "billing")})
    parsed = manifest.parse(channel(entry("aaaa-1")))
    (row,) = consumer.rows(parsed, "KN_SHOP__ORDERS", truth, error_data=trusted.__contains__)
    assert row.subscriber is not None
    assert (row.subscriber.subscription_namespace, row.subscriber.error_data) == ("till", told)
