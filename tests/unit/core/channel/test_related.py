"""Objects that are asked for beside a channel, the words of the hook's extension, and a dead letter sink's address."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.channel import consumer, dead_letter, related, truth
from headrace.core.channel.dead_letter import INVALID, NOT_ADDRESSABLE, NOT_FOUND, NOT_RESOLVED, Resolution, Unresolved
from headrace.core.channel.desired import desired
from headrace.core.channel.hook import HookRequest, HookResponse, Reference
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.subscriber import Destination, SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest import manifest
from headrace.core.manifest.own_address import OwnAddress
from tests.support.functions.channels import channel, entry

SUBSCRIPTIONS = {
    "apiVersion": "messaging.knative.dev/v1",
    "resource": "subscriptions",
    "headrace": {"concerning": "parent"},
}
SERVICE = {"apiVersion": "v1", "resource": "services", "headrace": {"kind": "Service"}}


def ref(kind: str = "Service", api: str = "v1", name: str = "dead", **more: str) -> dict[str, Any]:
    return {"ref": {"apiVersion": api, "kind": kind, "name": name, **more}}


@pytest.mark.parametrize(
    ("sink", "rule"),
    [
        pytest.param(ref(), {**SERVICE, "names": ["dead"], "namespace": "shop"}, id="own"),
        pytest.param(
            ref(namespace="shop"),
            {**SERVICE, "names": ["dead"], "namespace": "shop"},
            id="own namespace, named",
        ),
        pytest.param(
            ref("NatsJetStreamChannel", "messaging.knative.dev/v1alpha1", namespace="ops"),
            {
                "apiVersion": "messaging.knative.dev/v1alpha1",
                "resource": "natsjetstreamchannels",
                "names": ["dead"],
                "headrace": {"kind": "NatsJetStreamChannel"},
            },
            id="another namespace, which a stock Metacontroller must not be given",
        ),
        pytest.param({"uri": "http://dead/"}, None, id="an address needs no object"),
        pytest.param({"ref": {"kind": "Service", "name": "dead"}}, None, id="without apiVersion"),
        pytest.param("http://dead/", None, id="a sink that is no object"),
        pytest.param({"ref": {"apiVersion": 1, "kind": [], "name": None}}, None, id="types that are wrong"),
        pytest.param(None, None, id="no sink"),
    ],
)
def test_what_is_asked_for_beside_the_channel(sink: Any, rule: dict[str, Any] | None) -> None:
    found = [one.to_json() for one in related.rules(channel(delivery={"deadLetterSink": sink}))]
    assert found == [SUBSCRIPTIONS, *([rule] if rule else [])]


@pytest.mark.parametrize("spec", [None, [], "x", {"delivery": []}])
def test_a_spec_that_makes_no_sense_is_still_asked_about(spec: Any) -> None:
    assert [one.to_json() for one in related.rules({**channel(), "spec": spec})] == [SUBSCRIPTIONS]


@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        ("Service", "services"),
        ("Subscription", "subscriptions"),
        ("EventPolicy", "eventpolicies"),
        ("Bus", "buses"),
        ("Channel", "channels"),
    ],
)
def test_plurals(kind: str, resource: str) -> None:
    assert related.plural(kind) == resource


def addressable(name: str = "dead", namespace: str = "shop", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "status": status}


def resolved(sink: Any, observed: dict[str, Any] | None = None) -> Resolution:
    parsed = manifest.parse(channel(delivery={"deadLetterSink": sink})).spec.delivery
    assert parsed is not None
    return dead_letter.resolve(parsed.dead_letter_sink, observed or {}, OwnAddress("shop", "orders"))


BROKER = ref("Broker", "eventing.knative.dev/v1")


def brokers(*found: dict[str, Any]) -> dict[str, Any]:
    return {"Broker.eventing.knative.dev/v1": {str(number): one for number, one in enumerate(found)}}


BOTH = {
    "address": {"url": "http://plain/"},
    "addresses": [
        {"name": "https", "url": "https://safe/", "CACerts": "PEM"},
        {"name": "http", "url": "http://plain/"},
    ],
}


@pytest.mark.parametrize(
    ("sink", "observed", "address"),
    [
        pytest.param(None, {}, None, id="no sink"),
        pytest.param({"uri": "http://dead/x"}, {}, Destination("http://dead/x"), id="an address"),
        pytest.param(
            {"uri": "https://dead/", "CACerts": "PEM", "audience": "aud"},
            {},
            Destination("https://dead/", "PEM", "aud"),
            id="an address with trust",
        ),
        pytest.param(
            ref(),
            {"Service.v1": {"dead": addressable()}},
            Destination("http://dead.shop.svc.cluster.local"),
            id="service",
        ),
        pytest.param(
            {**ref(namespace="ops"), "uri": "/letters?x=1"},
            {"Service.v1": {"ops/dead": addressable(namespace="ops")}},
            Destination("http://dead.ops.svc.cluster.local/letters?x=1"),
            id="a path below a service of another namespace",
        ),
        pytest.param(
            BROKER,
            brokers(addressable(address={"url": "http://broker/shop/dead", "CACerts": "PEM", "audience": "aud"})),
            Destination("http://broker/shop/dead", "PEM", "aud"),
            id="an addressable with trust",
        ),
        pytest.param(
            {**BROKER, "uri": "more"},
            brokers(addressable(address={"url": "http://broker/shop/dead"})),
            Destination("http://broker/shop/more"),
            id="a relative path, as URLs have it",
        ),
        pytest.param(
            BROKER, brokers(addressable(**BOTH)), Destination("https://safe/", "PEM"), id="the first of several"
        ),
        pytest.param(
            ref("Broker", "eventing.knative.dev/v1", address="http"),
            brokers(addressable(**BOTH)),
            Destination("http://plain/"),
            id="the named one of several",
        ),
    ],
)
def test_where_a_dead_letter_sink_leads(sink: Any, observed: dict[str, Any], address: Destination | None) -> None:
    assert resolved(sink, observed) == address


@pytest.mark.parametrize(
    ("sink", "observed", "reason", "says"),
    [
        pytest.param({}, {}, INVALID, "neither ref nor uri", id="nothing"),
        pytest.param({"uri": "/dead"}, {}, INVALID, "a path without a host", id="a path below nothing"),
        pytest.param({"uri": "ftp://dead/"}, {}, INVALID, "only http and https", id="another scheme"),
        pytest.param({"ref": {"kind": "Broker", "name": "dead"}}, {}, INVALID, "no apiVersion", id="no apiVersion"),
        pytest.param(BROKER, {}, NOT_RESOLVED, "give its uri", id="nobody has looked it up"),
        pytest.param(BROKER, brokers(), NOT_FOUND, "no Broker shop/dead", id="not there"),
        pytest.param(
            BROKER, brokers(addressable(namespace="ops"), addressable("letters")), NOT_FOUND, "no Broker", id="others"
        ),
        pytest.param(BROKER, brokers(addressable()), NOT_ADDRESSABLE, "has no address", id="no address yet"),
        pytest.param(BROKER, brokers(addressable(address=None)), NOT_ADDRESSABLE, "no address", id="a null address"),
        pytest.param(BROKER, brokers({"metadata": {"name": "dead"}}), NOT_ADDRESSABLE, "no address", id="no status"),
        pytest.param(
            ref("Broker", "eventing.knative.dev/v1", address="grpc"),
            brokers(addressable(**BOTH)),
            NOT_ADDRESSABLE,
            "no address 'grpc'",
            id="no such address",
        ),
        pytest.param(
            {**BROKER, "uri": "//evil/"},
            brokers(addressable(address={"url": "http://broker/"})),
            INVALID,
            "a path below",
            id="another host beside a ref",
        ),
        pytest.param(
            {**BROKER, "uri": "//[broker"},
            brokers(addressable(address={"url": "http://broker/"})),
            INVALID,
            "a path below",
            id="half a host beside a ref",
        ),
        pytest.param(
            {**BROKER, "uri": "http://broker/x"},
            brokers(addressable(address={"url": "http://broker/"})),
            INVALID,
            "a path below",
            id="a whole address beside a ref",
        ),
        pytest.param(
            BROKER, brokers(addressable(address={"url": "ftp://x/"})), INVALID, "only http and https", id="bad address"
        ),
    ],
)
def test_why_a_dead_letter_sink_leads_nowhere(sink: Any, observed: dict[str, Any], reason: str, says: str) -> None:
    found = resolved(sink, observed)

    assert isinstance(found, Unresolved)
    assert found.reason == reason
    assert says in found.message


def request(**members: Any) -> HookRequest:
    return HookRequest.from_json(json.dumps({"parent": channel(), **members}).encode())


def test_the_extension_is_read() -> None:
    read = request(headrace={"complete": ["Subscription.messaging.knative.dev/v1"], "absent": ["u1"], "apis": ["a/v1"]})

    assert read.complete == {"Subscription.messaging.knative.dev/v1"}
    assert read.absent == {"u1"}
    assert read.apis == {"a/v1"}


@pytest.mark.parametrize("extension", [{}, {"headrace": None}, {"headrace": {}}, {"headrace": {"complete": None}}])
def test_without_the_extension_nothing_is_proved(extension: dict[str, Any]) -> None:
    read = request(**extension)

    assert (read.complete, read.absent, read.apis) == (frozenset(), frozenset(), None)


def test_words_of_the_extension_that_are_none_say_nothing() -> None:
    assert request(headrace={"complete": "Subscription", "absent": ["a", 1, None, {}]}).absent == {"a"}
    assert request(headrace={"complete": "Subscription"}).complete == frozenset()


def test_the_answer_has_an_extension_only_where_there_is_something_to_say() -> None:
    question = Reference("messaging.knative.dev/v1", "Subscription", "shop", "billing", "aaaa-1")

    assert "headrace" not in HookResponse({}).to_json()
    assert HookResponse({}, verify=(question,), prune=("u1",)).to_json()["headrace"] == {
        "verify": [
            {
                "apiVersion": "messaging.knative.dev/v1",
                "kind": "Subscription",
                "namespace": "shop",
                "name": "billing",
                "uid": "aaaa-1",
            }
        ],
        "prune": ["u1"],
    }


def test_subscriptions_are_read_wherever_they_are() -> None:
    metadata = {"uid": "aaaa-1", "namespace": "shop", "name": "billing", "generation": 4, "annotations": {"a": "b"}}
    spec = {"channel": {"kind": "Channel", "name": "orders"}}
    request = HookRequest(
        channel(),
        related={
            truth.KIND: {
                "billing": {"metadata": metadata, "spec": spec},
                "ops/mail": {"metadata": {"uid": "b", "namespace": "ops", "name": "mail", "deletionTimestamp": "now"}},
                "odd": {"metadata": {"name": "odd"}},
                "odder": None,
            },
            "ConfigMap.v1": {"other": {"metadata": {"uid": "c", "namespace": "shop", "name": "other"}}},
        },
        complete=frozenset([truth.KIND]),
        tokens={},
    )

    assert truth.of_request(request) == Truth(
        {
            "aaaa-1": Subscription("aaaa-1", "shop", "billing", 4, {"a": "b"}, channel=("shop", "orders")),
            "b": Subscription("b", "ops", "mail", going=True),
        },
        complete=True,
    )


@pytest.mark.parametrize(
    ("observed", "proved"),
    [
        pytest.param({truth.KIND: {}}, True, id="an empty list"),
        pytest.param({}, False, id="no list"),
        pytest.param({truth.KIND: None}, False, id="a null list"),
    ],
)
def test_only_a_list_can_be_complete(observed: dict[str, Any], proved: bool) -> None:
    request = HookRequest(channel(), related=observed, complete=frozenset([truth.KIND]))

    assert truth.of_request(request).misses("aaaa-1") is proved


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("apiVersion", "v1/../../apis/apps/v1"),
        ("apiVersion", "v1?watch=true"),
        ("apiVersion", "serving.knative.dev"),
        ("apiVersion", "Serving.Knative.Dev/v1"),
        ("kind", "Service.v1"),
        ("kind", ""),
        ("name", "letters,metadata.namespace=other"),
        ("name", "../letters"),
        ("namespace", "other/services/x"),
        ("namespace", "a.b"),
    ],
)
def test_a_ref_whose_text_would_become_a_part_of_a_request_is_refused_with_its_field_and_value(
    field: str, value: str
) -> None:
    ref = {"apiVersion": "v1", "kind": "Service", "name": "letters", field: value}
    parent = channel(entry(), delivery={"deadLetterSink": {"ref": ref}})

    found = desired(parent, ReconcileSettings())
    rules = related.rules(parent)

    assert isinstance(found, InvalidSpec)
    assert found.field == f"spec.delivery.deadLetterSink.ref.{field}"
    assert f"{found.field} is {value!r}: it should be" in str(found)
    assert [rule.resource for rule in rules] == ["subscriptions"]


def test_nor_is_the_ref_of_one_subscribers_dead_letter_sink_believed() -> None:
    ref = {"apiVersion": "v1#", "kind": "Service", "name": "letters"}
    (row,) = consumer.rows(manifest.parse(channel(entry(delivery={"deadLetterSink": {"ref": ref}}))), "KN_SHOP__ORDERS")

    assert row.subscriber is not None
    assert row.subscriber.state is SubscriberState.REFUSED
    assert "spec.subscribers[0].delivery.deadLetterSink.ref.apiVersion is 'v1#'" in row.subscriber.reason


# ── where a revision may begin with no pod ──────────────────────────────────────────────────────────────────────────
AUTOSCALER = {
    "apiVersion": "v1",
    "resource": "configmaps",
    "namespace": "knative-serving",
    "names": ["config-autoscaler"],
}


@pytest.mark.parametrize(
    ("settings", "stock", "asked"),
    [
        pytest.param({"image": "x"}, False, [AUTOSCALER], id="as it is installed beside Knative Serving"),
        pytest.param({"image": "x", "runtime": "deployment"}, False, [], id="nothing is scaled by Knative"),
        pytest.param({"image": "x", "zero_initial_scale": False}, False, [], id="somebody has said so already"),
        pytest.param({}, False, [], id="a laptop"),
        pytest.param({"image": "x"}, True, [], id="a stock Metacontroller refuses rules for other namespaces"),
    ],
)
def test_what_knatives_autoscaler_allows_is_asked_for(
    settings: dict[str, Any], stock: bool, asked: list[dict[str, Any]]
) -> None:
    rules = related.rules(channel(), ReconcileSettings(**settings), stock=stock)

    assert [rule.to_json() for rule in rules if rule.namespace == "knative-serving"] == asked


def config(data: Any, namespace: str = "knative-serving") -> dict[str, Any]:
    body = {"metadata": {"namespace": namespace, "name": "config-autoscaler"}, "data": data}
    return {"ConfigMap.v1": {f"{namespace}/config-autoscaler": body}}


@pytest.mark.parametrize(
    ("setting", "found", "allowed"),
    [
        pytest.param("auto", config({"allow-zero-initial-scale": "true"}), True, id="Knative allows it"),
        pytest.param("auto", config({"allow-zero-initial-scale": "T"}), True, id="as Go reads it"),
        pytest.param("auto", config({"allow-zero-initial-scale": "false"}), False, id="Knative does not"),
        pytest.param(
            "auto", config({"_example": "allow-zero-initial-scale: true"}), False, id="by default it does not"
        ),
        pytest.param("auto", config(None), False, id="without data"),
        pytest.param("auto", config({"allow-zero-initial-scale": "true"}, "shop"), False, id="somebody else's"),
        pytest.param("auto", {"ConfigMap.v1": {}}, False, id="not there"),
        pytest.param("auto", {}, None, id="not listed yet, or not ours to see"),
        pytest.param("true", {}, True, id="said"),
        pytest.param("1", {}, True, id="said as an earlier version took it, too"),
        pytest.param("False", config({"allow-zero-initial-scale": "true"}), False, id="said otherwise"),
    ],
)
def test_where_a_revision_may_begin_with_no_pod(setting: str, found: dict[str, Any], allowed: bool | None) -> None:
    settings = ReconcileSettings.model_validate({"HEADRACE_ZERO_INITIAL_SCALE": setting})

    assert related.may_begin_at_zero(found, settings.zero_initial_scale) is allowed


def test_another_config_map_that_is_seen_does_not_say_that_this_one_is_not_there() -> None:
    body = {"metadata": {"namespace": "knative-eventing", "name": "config-features"}, "data": {}}
    found = {"ConfigMap.v1": {"knative-eventing/config-features": body}}

    assert related.may_begin_at_zero(found, "auto", ["ConfigMap.v1/knative-serving/config-autoscaler"]) is None
    assert related.may_begin_at_zero(found, "auto", []) is False
