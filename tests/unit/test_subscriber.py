"""A subscriber as its consumer's metadata carries it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidSpec
from headrace.core.subscriber import (
    METADATA_KEY,
    BackoffPolicy,
    DeliveryPolicy,
    Destination,
    Subscriber,
    SubscriberState,
    checked_uri,
    from_json,
    from_metadata,
)

PLAIN = Subscriber(
    namespace="shop",
    channel="orders",
    name="billing",
    uid="aaaa-1",
    generation=1,
    aside="KN_SHOP__ORDERS_aside",
    subscription_namespace="shop",
)

uris = st.sampled_from(["http://billing/", "https://10.0.0.1:8443/path?x=1", "http://[::1]:8080/"])
destinations = st.none() | st.builds(Destination, uris, st.none() | st.text(min_size=1), st.none())
spans = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=1))
subscribers = st.builds(
    Subscriber,
    namespace=st.just("shop"),
    channel=st.text(),
    name=st.text(),
    uid=st.text(),
    generation=st.integers(min_value=0),
    aside=st.text(),
    subscription_namespace=st.text(min_size=1),
    subscriber=destinations,
    reply=destinations,
    dead_letter=destinations,
    policy=st.builds(DeliveryPolicy, st.integers(0, 1_000_000), st.sampled_from(BackoffPolicy), spans, spans, spans),
    rate_limit_bps=st.integers(min_value=0),
    lag_threshold=st.integers(min_value=1),
    max_scale=st.integers(min_value=1),
    state=st.sampled_from(SubscriberState),
    reason=st.text(),
    gone_since=st.none() | st.just("2026-01-31T12:00:00+00:00"),
)


@given(subscribers)
def test_what_is_written_is_read_back(subscriber: Subscriber) -> None:
    assert from_json(subscriber.to_json()) == subscriber


def test_the_metadata_value_is_one_json_object_with_its_version() -> None:
    assert json.loads(PLAIN.to_json()) == {
        "v": 1,
        "namespace": "shop",
        "channel": "orders",
        "name": "billing",
        "uid": "aaaa-1",
        "generation": 1,
        "aside": "KN_SHOP__ORDERS_aside",
        "subscriptionNamespace": "shop",
        "policy": {
            "retry": 0,
            "backoffPolicy": "exponential",
            "backoffDelay": "PT0.2S",
            "timeout": "PT60S",
            "retryAfterMax": "PT300S",
        },
        "rateLimitBPS": 0,
        "lagThreshold": 1000,
        "maxScale": 4,
        "state": "ready",
    }


@pytest.mark.parametrize("metadata", [None, {}, {"headrace.dev/channel": "orders"}])
def test_a_consumer_without_our_mark_is_nobodys(metadata: dict[str, str] | None) -> None:
    assert from_metadata(metadata) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": None}, id="a null"),
        pytest.param({"generation": "x"}, id="a word for a number"),
        pytest.param({"policy": {}}, id="no policy"),
        pytest.param({"policy": []}, id="a list for a policy"),
        pytest.param({"state": "asleep"}, id="a state that is none"),
        pytest.param({"subscriber": "http://billing/"}, id="a word for a destination"),
        pytest.param({"subscriber": {"uri": 5}}, id="a number for a URI"),
    ],
)
def test_damaged_metadata_are_refused_with_what_mends_them(change: dict[str, object]) -> None:
    body = {**json.loads(PLAIN.to_json()), **change}

    with pytest.raises(InvalidSpec, match="reconcile the channel again") as refused:
        from_metadata({METADATA_KEY: json.dumps(body)})

    assert refused.value.field == METADATA_KEY


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", "[" * 100_000])
def test_metadata_that_are_no_object_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        from_json(text)


@pytest.mark.parametrize(
    "uri",
    [
        "http://billing/",
        "https://billing.shop.svc:8443/a?b=c",
        "http://10.1.2.3",
        "http://[::1]:80/",
        "HTTP://Billing/",
    ],
)
def test_addresses_fit_to_post_to_are_taken_as_they_are(uri: str) -> None:
    assert checked_uri(uri, field="subscriberUri") == uri


def test_a_bare_host_is_taken_as_http() -> None:
    assert checked_uri("billing.shop/path", field="subscriberUri") == "http://billing.shop/path"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("ftp://billing/", "only http and https"),
        ("file:///etc/passwd", "only http and https"),
        ("http://", "no host"),
        ("/dead", "no host"),
        ("http://bil ling/", "blanks or control characters"),
        ("http://billing/\r\nX: 1", "blanks or control characters"),
        ("http://billing:99999/", "not a URL"),
        ("http://[::1/", "not a URL"),
    ],
)
def test_addresses_that_can_not_be_posted_to_are_refused(uri: str, says: str) -> None:
    with pytest.raises(InvalidSpec, match=says) as refused:
        checked_uri(uri, field="subscriberUri")

    assert refused.value.field == "subscriberUri"


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidSpec) as refused:
        checked_uri("http://user:secret@billing/", field="subscriberUri")

    assert "secret" not in str(refused.value)


EXPONENTIAL = DeliveryPolicy(backoff_delay=timedelta(seconds=1))
LINEAR = DeliveryPolicy(backoff_policy=BackoffPolicy.LINEAR, backoff_delay=timedelta(seconds=1))


@pytest.mark.parametrize(
    ("policy", "failures", "seconds"),
    [
        (EXPONENTIAL, 1, 1),
        (EXPONENTIAL, 2, 2),
        (EXPONENTIAL, 3, 4),
        (EXPONENTIAL, 1_000_000, 86_400),
        (LINEAR, 1, 1),
        (LINEAR, 2, 2),
        (LINEAR, 3, 3),
        (LINEAR, 1_000_000, 86_400),
        (DeliveryPolicy(), 1, 0.2),
    ],
)
def test_the_first_wait_is_the_delay_and_none_is_longer_than_a_day(
    policy: DeliveryPolicy, failures: int, seconds: float
) -> None:
    assert policy.wait(failures) == timedelta(seconds=seconds)
