"""Which addresses are the channel's own, and are refused where its manifest is read."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import dead_letter
from headrace.core.channel.dead_letter import Unresolved
from headrace.core.channel.desired import Desired, desired
from headrace.core.delivery.subscriber import Destination, SubscriberState
from headrace.core.installation import channel_defaults
from headrace.core.installation.channel_defaults import Defaults
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest import manifest, own_address
from headrace.core.manifest.delivery_spec import Ref
from headrace.core.manifest.own_address import OwnAddress
from tests.support.functions.channels import channel, entry

PATH_URL = "http://receive.knative-eventing.svc.cluster.local/shop/orders"
OWN = OwnAddress("shop", "orders", "cluster.local", (PATH_URL,))
ITSELF = {"kind": "NatsJetStreamChannel", "apiVersion": "messaging.knative.dev/v1alpha1", "name": "orders"}


@pytest.mark.parametrize(
    "uri",
    [
        "http://orders-kn-jsm-channel.shop.svc.cluster.local",
        "http://orders-kn-jsm-channel.shop.svc.cluster.local/",
        "https://Orders-KN-jsm-channel.Shop.svc:8443",
        "orders-kn-jsm-channel.shop.svc",
        PATH_URL,
        f"{PATH_URL}/",
        "http://receive.knative-eventing.svc.cluster.local:80/shop/orders?x=1",
    ],
)
def test_these_are_the_channel_s_own(uri: str) -> None:
    assert OWN.is_at(uri)


@pytest.mark.parametrize(
    "uri",
    [
        pytest.param("", id="none"),
        pytest.param("http://billing.shop.svc.cluster.local/", id="a Service"),
        pytest.param("http://orders-kn-jsm-channel.other.svc.cluster.local", id="of another namespace"),
        pytest.param("http://orders-kn-jsm-channel.shop.svc.other.example", id="of another cluster"),
        pytest.param("http://orders-kn-jsm-channel.shop.svc.cluster.local/x", id="no address of a channel"),
        pytest.param("http://receive.knative-eventing.svc.cluster.local/shop/orders-2", id="another path"),
        pytest.param(
            "http://broker-ingress.knative-eventing.svc.cluster.local/shop/orders", id="a Broker of that name"
        ),
        pytest.param("http://receive.knative-eventing.svc.cluster.local:81/shop/orders", id="another port"),
        pytest.param("http://[::1", id="no address at all"),
    ],
)
def test_these_are_not(uri: str) -> None:
    assert not OWN.is_at(uri)


@pytest.mark.parametrize(
    ("ref", "own"),
    [
        (ITSELF, True),
        ({**ITSELF, "namespace": "shop"}, True),
        ({"kind": "NatsJetStreamChannel", "group": "messaging.knative.dev", "name": "orders"}, True),
        ({**ITSELF, "namespace": "ops"}, False),
        ({**ITSELF, "name": "dead"}, False),
        ({**ITSELF, "kind": "Channel"}, False),
        ({**ITSELF, "apiVersion": "example.org/v1alpha1"}, False),
    ],
)
def test_a_ref_may_name_the_channel(ref: dict[str, Any], own: bool) -> None:
    assert OWN.is_named(Ref.model_validate(ref)) is own


def test_a_status_tells_an_address_of_the_channel_and_no_other() -> None:
    told = {"address": {"url": "http://reply/"}, "addresses": [{"url": PATH_URL}, {"url": 7}, "x"]}
    assert own_address.of(channel(status=told), "cluster.local", "http://127.0.0.1:8080/").urls == (
        PATH_URL,
        "http://127.0.0.1:8080/shop/orders",
    )


def wish(*entries: dict[str, Any], **members: Any) -> Desired:
    found = desired(channel(*entries, status={"address": {"url": PATH_URL}}, **members), ReconcileSettings())
    assert isinstance(found, Desired)
    return found


@pytest.mark.parametrize("sink", [{"ref": ITSELF}, {"uri": PATH_URL}], ids=["by ref", "by address"])
def test_a_dead_letter_sink_that_is_the_channel_itself_is_refused(sink: dict[str, Any]) -> None:
    found = wish(entry(), delivery={"deadLetterSink": sink})
    assert isinstance(found.sink, Unresolved)
    assert found.sink.reason == "DeadLetterSinkIsItself"
    assert found.sink.message.startswith("spec.delivery.deadLetterSink is the channel shop/orders itself: ")
    [row] = found.rows
    assert row.subscriber is not None
    assert row.subscriber.state is SubscriberState.REFUSED


def test_an_object_that_has_the_channel_s_address_is_the_channel() -> None:
    # A Channel is backed by one of ours, of the same name and with the same address.
    sink = {"ref": {"kind": "Channel", "apiVersion": "messaging.knative.dev/v1", "name": "orders"}}
    read = manifest.parse(channel(delivery={"deadLetterSink": sink})).spec.delivery
    assert read is not None
    observed = {"metadata": {"name": "orders", "namespace": "shop"}, "status": {"address": {"url": PATH_URL}}}
    found = dead_letter.resolve(read.dead_letter_sink, {"Channel.messaging.knative.dev/v1": {"orders": observed}}, OWN)
    assert isinstance(found, Unresolved)
    assert found.reason == "DeadLetterSinkIsItself"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"subscriberUri": PATH_URL}, "subscriberUri"),
        ({"subscriberUri": "http://billing/", "replyUri": PATH_URL}, "replyUri"),
        (
            {"subscriberUri": "http://billing/", "delivery": {"deadLetterSink": {"uri": PATH_URL}}},
            "delivery.deadLetterSink",
        ),
    ],
)
def test_an_entry_that_leads_back_to_the_channel_is_refused_and_the_others_go_on(
    fields: dict[str, Any], field: str
) -> None:
    refused, other = (row.subscriber for row in wish(entry(**fields), entry("bbbb-2", "shipping")).rows)
    assert refused is not None
    assert refused.state is SubscriberState.REFUSED
    assert refused.reason.startswith(f"spec.subscribers[0].{field} is the channel shop/orders itself: ")
    assert other is not None
    assert other.state is SubscriberState.READY


@pytest.mark.parametrize("sink", [{"ref": ITSELF}, {"uri": PATH_URL}], ids=["by ref", "by address"])
def test_the_sink_that_is_the_default_of_all_channels_has_none_itself(sink: dict[str, Any]) -> None:
    defaults = Defaults(namespaces={"shop": {"delivery": {"deadLetterSink": sink, "retry": 3}}})
    own = channel_defaults.merged(channel(status={"address": {"url": PATH_URL}}), defaults)
    assert own.parent["spec"]["delivery"] == {"retry": 3}
    other = channel_defaults.merged(channel(name="other"), defaults)
    assert other.parent["spec"]["delivery"] == {"deadLetterSink": sink, "retry": 3}


def test_another_address_of_an_entry_is_delivered_to() -> None:
    [row] = wish(entry(subscriberUri="http://other-kn-jsm-channel.shop.svc.cluster.local")).rows
    assert row.subscriber is not None
    assert row.subscriber.subscriber == Destination("http://other-kn-jsm-channel.shop.svc.cluster.local")
