"""A subscriber as its consumer's metadata carries it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.delivery.placement_spec import Isolation, Keda, PlacementSpec, Runtime
from headrace.core.delivery.scale_spec import Wake
from headrace.core.delivery.subscriber import (
    LARGEST,
    METADATA_KEY,
    BackoffPolicy,
    DeliveryPolicy,
    Destination,
    Subscriber,
    SubscriberState,
    from_json,
    from_metadata,
)
from headrace.core.errors import InvalidSpec

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
    channel=st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True).filter(
        lambda name: not any(pair in name for pair in ("..", ".-", "-."))
    ),
    name=st.text(),
    uid=st.text(),
    generation=st.integers(0, LARGEST),
    aside=st.from_regex(r"[\w-]*", fullmatch=True),
    subscription_namespace=st.text(min_size=1),
    subscriber=destinations,
    reply=destinations,
    dead_letter=destinations,
    policy=st.builds(DeliveryPolicy, st.integers(0, 1_000_000), st.sampled_from(BackoffPolicy), spans, spans, spans),
    rate_limit_bps=st.integers(0, LARGEST),
    lag_threshold=st.integers(1, LARGEST),
    max_scale=st.integers(1, LARGEST),
    wake=st.none() | st.sampled_from(Wake),
    error_data=st.booleans(),
    placement=st.builds(
        PlacementSpec,
        st.none() | st.sampled_from(Runtime),
        st.none() | st.sampled_from(Isolation),
        st.none() | st.sampled_from(Keda),
    ),
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
        pytest.param({"subscriber": {"uri": "http://a..b/"}}, id="a host that is no name"),
        pytest.param({"subscriber": {"uri": "http://b/", "CACerts": 5}}, id="a number for certificates"),
        pytest.param({"subscriber": {"uri": "http://b/", "CACerts": [1]}}, id="a list for certificates"),
        pytest.param({"subscriber": {"uri": "http://b/", "audience": True}}, id="a boolean for an audience"),
        pytest.param({"namespace": "Shop"}, id="a namespace that Kubernetes would not have"),
        pytest.param({"channel": "a b"}, id="a channel that Kubernetes would not have"),
        pytest.param({"aside": "KN_A\r\nPUB x 0"}, id="a stream that smuggles"),
        pytest.param({"generation": float("inf")}, id="a generation without end"),
        pytest.param({"rateLimitBPS": 10**400}, id="a rate limit beyond any float"),
        pytest.param({"lagThreshold": 1.5}, id="a fraction of an event"),
        pytest.param({"maxScale": True}, id="a boolean for a number"),
        pytest.param({"wake": "sometimes"}, id="a moment that is none"),
        pytest.param({"goneSince": 5}, id="a number for a moment"),
        pytest.param({"orderKey": []}, id="a list for a key"),
        pytest.param({"policy": {**json.loads(PLAIN.to_json())["policy"], "retry": 10**400}}, id="endless retries"),
        pytest.param({"policy": {**json.loads(PLAIN.to_json())["policy"], "timeout": 5}}, id="a number for a time"),
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


@pytest.mark.parametrize("damaged", [None, 0, "true", [True]])
def test_whether_answers_are_told_is_not_taken_from_a_damaged_value(damaged: object) -> None:
    assert not from_json(json.dumps({**json.loads(PLAIN.to_json()), "errorData": damaged})).error_data


def test_metadata_of_a_version_that_knew_nothing_of_it_mean_that_answers_are_told() -> None:
    assert "errorData" not in json.loads(PLAIN.to_json())
    assert from_json(PLAIN.to_json()).error_data
