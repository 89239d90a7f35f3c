"""The status of a channel: its dead letter sink, and what it asks for and does not get."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel.desired import Desired, desired
from headrace.core.channel.status import status
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery.subscriber import Destination
from headrace.core.manifest.channel_status import ChannelStatus
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.statuses import NOON, SETTINGS, conditions, well, wish


@pytest.mark.parametrize(
    ("members", "told"),
    [
        pytest.param({}, "", id="nothing set"),
        pytest.param({"consumerConfigTemplate": {"ackWait": "", "consumerType": None}}, "", id="set to nothing"),
        pytest.param(
            {"consumerConfigTemplate": {"consumerType": "Pull"}, "delivery": {"format": "json"}},
            "",
            id="what happens anyhow",
        ),
        pytest.param(
            {"consumerConfigTemplate": {"ackWait": "30s", "fetchBatchSize": 10}},
            "spec.consumerConfigTemplate.ackWait is '30s': Headrace's own acknowledgement wait is 8s, and "
            "delivery.timeout is exact; spec.consumerConfigTemplate.fetchBatchSize is '10': Headrace asks for what the "
            "subscriber can take at once",
            id="two fields",
        ),
        pytest.param(
            {"consumerConfigTemplate": {"maxDeliver": 0, "ackWait": "0s", "fetchMaxWait": "", "fetchBatchSize": None}},
            "",
            id="zero values say nothing",
        ),
        pytest.param(
            {"stream": stream(template="t")},
            "spec.stream.config.template is 't': NATS has no stream templates any more",
            id="of the stream",
        ),
    ],
)
def test_what_is_set_and_not_obeyed_is_told(members: dict[str, Any], told: str) -> None:
    parent = channel(**members)
    asked = wish(parent)

    body = status(parent, asked, well(asked), NOON)

    (found,) = (one for one in body["conditions"] if one["type"] == "TemplateObeyed")
    assert found.get("message", "") == told
    assert found.get("severity", "") == ("Info" if told else "")
    assert conditions(body)["Ready"] == ("True", "")


@pytest.mark.parametrize(
    ("sink", "uri", "resolved"),
    [
        (None, None, None),
        ({"uri": "http://dead/"}, "http://dead/", ("True", "")),
        ({"ref": {"apiVersion": "v1", "kind": "Service", "name": "dead"}}, None, ("False", "RefNotResolved")),
    ],
)
def test_the_channels_dead_letter_sink_is_reported(
    sink: dict[str, Any] | None, uri: str | None, resolved: tuple[str, str] | None
) -> None:
    parent = channel(delivery={"deadLetterSink": sink})
    asked = wish(parent)

    body = status(parent, asked, well(asked), NOON)

    assert body.get("deadLetterSinkUri") == uri
    assert conditions(body).get("DeadLetterSinkResolved") == resolved
    assert conditions(body)["Ready"][0] == ("False" if resolved and resolved[0] == "False" else "True")


BROKER = {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "dead"}}
ADDRESS = {"url": "http://dead/", "CACerts": "PEM", "audience": "aud"}


def observed(address: dict[str, str]) -> dict[str, Any]:
    """`related` with that broker."""
    broker = {"metadata": {"namespace": "shop", "name": "dead"}, "status": {"address": address}}
    return {"Broker.eventing.knative.dev/v1": {"dead": broker}}


def test_a_resolved_dead_letter_sink_is_told_whole_and_inherited() -> None:
    parent = channel(entry(), delivery={"deadLetterSink": BROKER, "retry": 3})
    asked = desired(parent, SETTINGS, observed({"url": "http://dead/", "CACerts": "PEM"}))
    assert isinstance(asked, Desired)

    body = status(parent, asked, well(asked), NOON)

    assert (body["deadLetterSinkUri"], body["deadLetterSinkCACerts"]) == ("http://dead/", "PEM")
    assert conditions(body)["DeadLetterSinkResolved"] == ("True", "")
    (row,) = asked.rows
    assert row.subscriber is not None
    assert row.subscriber.dead_letter == Destination("http://dead/", "PEM")


def test_a_dead_letter_sink_with_an_audience_is_told_and_who_inherits_it_is_not_ready() -> None:
    parent = channel(
        entry(),
        entry("bbbb-2", delivery={"deadLetterSink": {"uri": "http://own/"}}),
        delivery={"deadLetterSink": BROKER},
    )
    asked = desired(parent, SETTINGS, observed(ADDRESS))
    assert isinstance(asked, Desired)

    body = status(parent, asked, well(asked), NOON)

    assert body["deadLetterSinkAudience"] == "aud"
    heir, other = body["subscribers"]
    assert heir["message"].startswith("OIDCIdentityMissing: spec.subscribers[0].auth.serviceAccountName is not set")
    assert (heir["ready"], other["ready"]) == ("False", "True")


AUTH = {"serviceAccountName": "billing-oidc"}
THEIRS = Subscription("aaaa-1", "shop", "billing", channel=("shop", "orders"), account="billing-oidc")


@pytest.mark.parametrize(
    ("facts", "ready", "message"),
    [
        pytest.param({}, "True", "", id="there are tokens"),
        pytest.param({"tokens": {"KN_SUB_aaaa-1": "no token: forbidden"}}, "False", "no token: forbidden", id="none"),
        pytest.param({"tokens": {"KN_SUB_bbbb-2": "no token"}}, "True", "", id="none for another"),
        pytest.param({"elsewhere": True}, "False", "OIDCNotPossible: its addresses ask for", id="no leases there"),
    ],
)
def test_a_subscriber_without_its_tokens_is_not_ready_and_says_why(
    facts: dict[str, Any], ready: str, message: str
) -> None:
    parent = channel(entry("aaaa-1", auth=AUTH, subscriberAudience="billing"), entry("bbbb-2", "mail", auth=AUTH))
    asked = desired(parent, SETTINGS, truth=Truth({"aaaa-1": THEIRS}))
    assert isinstance(asked, Desired)

    body = status(parent, asked, well(asked, **facts), NOON)

    first, other = body["subscribers"]
    assert first["ready"] == ready
    assert first.get("message", "").startswith(message)
    assert bool(first.get("message")) is bool(message)
    assert other["ready"] == "True"
    assert [one["auth"] for one in body["subscribers"]] == [AUTH, AUTH]
    ChannelStatus.model_validate(body)


def test_a_dead_letter_sink_that_is_not_there_keeps_the_channel_and_who_inherits_it_from_being_ready() -> None:
    parent = channel(entry(), delivery={"deadLetterSink": BROKER})
    asked = desired(parent, SETTINGS, {"Broker.eventing.knative.dev/v1": {}})
    assert isinstance(asked, Desired)

    body = status(parent, asked, well(asked), NOON)

    assert conditions(body)["Ready"] == ("False", "DeadLetterSinkNotFound")
    assert "deadLetterSinkUri" not in body
    assert body["subscribers"][0]["ready"] == "False"
    assert body["address"]
