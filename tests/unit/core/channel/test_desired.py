"""The status of a channel: its requests, and their results."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headrace.core.channel.binding import Binding
from headrace.core.channel.desired import desired
from headrace.core.channel.health import Health
from headrace.core.channel.leaving import Leaver
from headrace.core.channel.plan import Observed, Problem
from headrace.core.channel.status import Result, invalid_status, resync_after, status
from headrace.core.delivery.subscriber import SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.installation.reconcile_settings import ReconcileSettings
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.statuses import NOON, SETTINGS, bound, conditions, well, wish


def test_a_channel_that_went_well_is_ready_and_has_an_address() -> None:
    parent = channel(entry("aaaa-1", generation=4), entry("bbbb-2", "mail"), generation=7)
    asked = wish(parent)

    assert status(parent, asked, well(asked), NOON) == {
        "observedGeneration": 7,
        "conditions": [
            {"type": "Addressable", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
            {"type": "ConsumersReady", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
            {"type": "StreamReady", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
            {"type": "TemplateObeyed", "status": "True", "lastTransitionTime": "2026-01-31T12:00:00Z"},
        ],
        "stream": "KN_SHOP__ORDERS",
        "subscribers": [
            {"uid": "aaaa-1", "observedGeneration": 4, "ready": "True"},
            {"uid": "bbbb-2", "observedGeneration": 1, "ready": "True"},
        ],
        "consumers": [
            {"uid": "aaaa-1", "name": "billing", "durable": "KN_SUB_aaaa-1"},
            {"uid": "bbbb-2", "name": "mail", "durable": "KN_SUB_bbbb-2"},
        ],
        "address": {"url": "http://orders-kn-jsm-channel.shop.svc.cluster.local"},
        "readySubscribers": "2/2",
    }


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://orders-kn-jsm-channel.shop.svc.cluster.local"),
        ({"domain": "example.org"}, "http://orders-kn-jsm-channel.shop.svc.example.org"),
        ({"address": "http://127.0.0.1:8080"}, "http://127.0.0.1:8080/shop/orders"),
        ({"address": "http://receive.headrace.svc/"}, "http://receive.headrace.svc/shop/orders"),
    ],
)
def test_the_address(settings: dict[str, str], url: str) -> None:
    assert wish(channel(), ReconcileSettings(**settings)).url == url


REFUSED_UPDATE = Problem("StreamUpdateRefused", "NATS refused to update KN_SHOP__ORDERS: no")
NOT_OURS = Problem("StreamNotOurs", "stream KN_SHOP__ORDERS exists and belongs to channel shop/other")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"problems": (REFUSED_UPDATE,)},
            {
                "StreamReady": ("False", "StreamUpdateRefused"),
                "ConsumersReady": ("True", ""),
                "Addressable": ("True", ""),
                "Ready": ("False", "StreamUpdateRefused"),
            },
            id="a refused update: the channel works, but is not as its author wants",
        ),
        pytest.param(
            {"problems": (NOT_OURS,), "bindings": None},
            {
                "StreamReady": ("False", "StreamNotOurs"),
                "ConsumersReady": ("False", "StreamNotReady"),
                "Addressable": ("False", "StreamNotReady"),
                "Ready": ("False", "StreamNotOurs"),
            },
            id="a stream that is not ours",
        ),
        pytest.param(
            {"observed": Observed({"subjects": ["legacy"]}, {})},
            {
                "StreamReady": ("True", ""),
                "ConsumersReady": ("True", ""),
                "Addressable": ("False", "SubjectNotCaptured"),
                "Ready": ("False", "SubjectNotCaptured"),
            },
            id="a stream that does not take our subject",
        ),
        pytest.param(
            {"observed": Observed({"mirror": {"name": "A"}}, {})},
            {
                "StreamReady": ("True", ""),
                "ConsumersReady": ("True", ""),
                "Addressable": ("True", "MirrorIsReadOnly"),
                "Ready": ("True", ""),
            },
            id="a mirror",
        ),
        pytest.param(
            {"refusals": {"KN_SUB_aaaa-1": "maximum consumers limit reached"}},
            {
                "StreamReady": ("True", ""),
                "ConsumersReady": ("False", "ConsumersRefused"),
                "Addressable": ("True", ""),
                "Ready": ("True", ""),
            },
            id="a refused consumer concerns its subscriber, not the channel",
        ),
    ],
)
def test_conditions(changes: dict[str, Any], expected: dict[str, tuple[str, str]]) -> None:
    parent = channel(entry())
    asked = wish(parent)

    body = status(parent, asked, well(asked, **changes), NOON)

    assert conditions(body) == {**expected, "TemplateObeyed": ("True", "")}
    assert ("address" in body) is (expected["Addressable"][0] == "True")


def test_an_entry_that_may_yet_be_a_subscriber_is_unknown_and_no_fault_of_the_channel() -> None:
    parent = channel(entry())
    asked = wish(parent)
    open_question = Binding("aaaa-1", 1, None, problem="no Subscription is known yet", undecided=True)

    body = status(parent, asked, well(asked, bindings=(open_question,)), NOON)

    assert conditions(body)["ConsumersReady"] == ("True", "")
    assert body["subscribers"] == [
        {"uid": "aaaa-1", "observedGeneration": 1, "ready": "Unknown", "message": "no Subscription is known yet"}
    ]


def test_every_entry_has_its_row_even_when_nothing_could_be_done() -> None:
    parent = channel(entry("aaaa-1", generation=4), {"name": "no uid"})
    asked = wish(parent)

    body = status(parent, asked, Result(Observed(None, None), (NOT_OURS,)), NOON)

    assert [(row["uid"], row["observedGeneration"], row["ready"]) for row in body["subscribers"]] == [
        ("aaaa-1", 4, "False"),
        ("", 0, "False"),
    ]
    assert body["subscribers"][0]["message"] == NOT_OURS.message
    assert body["subscribers"][1]["message"].startswith("spec.subscribers[1].uid is ''")


def test_rows_of_subscribers() -> None:
    parent = channel(*(entry(uid, uid) for uid in ("ready", "drifts", "refused", "words", "no-consumer")))
    asked = wish(parent)
    well_bound, drifts, refused, words, missing = bound(asked)
    assert refused.subscriber is not None
    broken = replace(refused.subscriber, state=SubscriberState.REFUSED, reason="has no address")
    result = well(
        asked,
        bindings=(
            well_bound,
            replace(drifts, drift="deliver_policy stays 'all'"),
            replace(refused, subscriber=broken),
            words,
            replace(missing, subscriber=None, problem="in the way", durable=""),
        ),
        refusals={"KN_SUB_words": "no space"},
    )

    body = status(parent, asked, result, NOON)

    assert body["subscribers"] == [
        {"uid": "ready", "observedGeneration": 1, "ready": "True"},
        {"uid": "drifts", "observedGeneration": 1, "ready": "True", "message": "deliver_policy stays 'all'"},
        {"uid": "refused", "observedGeneration": 1, "ready": "False", "message": "has no address"},
        {"uid": "words", "observedGeneration": 1, "ready": "False", "message": "no space"},
        {"uid": "no-consumer", "observedGeneration": 1, "ready": "False", "message": "in the way"},
    ]


def test_a_newer_generation_that_the_consumer_knows_is_the_observed_one() -> None:
    parent = channel(entry(generation=4))
    asked = wish(parent)

    body = status(parent, asked, well(asked, bindings=bound(asked, generation=5)), NOON)

    assert body["subscribers"][0]["observedGeneration"] == 5


@pytest.mark.parametrize(
    ("parent", "field"),
    [
        (channel(stream=stream(retention="Limit")), "spec.stream.config.retention"),
        (channel(stream=stream(noAck=True)), "spec.stream.config.noAck"),
        (channel(stream={"overrideName": "a.b"}), "spec.stream.overrideName"),
        (channel(consumerConfigTemplate={"deliverPolicy": "ByStartTime"}), "spec.consumerConfigTemplate.optStartTime"),
        (channel(annotations={"headrace.dev/max-scale": "many"}), "metadata.annotations[headrace.dev/max-scale]"),
        (channel(name="Orders"), "metadata.name"),
        (channel(delivery={"retry": -1}), "spec.delivery.retry"),
    ],
)
def test_a_channel_that_makes_no_sense_is_not_desired(parent: dict[str, Any], field: str) -> None:
    error = desired(parent, SETTINGS)

    assert isinstance(error, InvalidSpec)
    assert error.field == field


def test_the_status_of_a_channel_that_makes_no_sense_keeps_what_was_reported_before() -> None:
    before = {
        "observedGeneration": 1,
        "stream": "KN_SHOP__ORDERS",
        "subscribers": [{"uid": "aaaa-1", "observedGeneration": 1, "ready": "True"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }

    body = invalid_status(channel(generation=2, status=before), InvalidSpec("no good", field="spec"), NOON)

    assert body == {
        **before,
        "observedGeneration": 2,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "InvalidSpec",
                "message": "no good",
                "lastTransitionTime": "2026-01-31T12:00:00Z",
            }
        ],
    }


def well_but(**changes: Any) -> Health:
    """A channel in which nothing is wrong, but for this."""
    aside = {"config": {"name": "aside"}, "state": {"messages": 0, "bytes": 0}}
    return replace(Health(aside, windows={}, stuck={}, discarded={}), **changes)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        pytest.param({}, 0, id="nothing to wait for"),
        pytest.param({"problems": (REFUSED_UPDATE,)}, 30.1, id="the server may think better of it"),
        pytest.param({"refusals": {"KN_SUB_A": "no"}}, 30.1, id="so of a consumer"),
        pytest.param({"leavers": (Leaver("A", (), timedelta(seconds=45)),)}, 45.1, id="a grace"),
        pytest.param(
            {"leavers": (Leaver("A", (), timedelta(seconds=45)), Leaver("B", (), timedelta(seconds=5)))},
            5.1,
            id="the shortest of two",
        ),
        pytest.param({"leavers": (Leaver("A", (), timedelta()),)}, 0, id="what is deleted waits no more"),
        pytest.param({"health": well_but(stuck={"A": (1,)})}, 30.1, id="a trouble that may be over unseen"),
        pytest.param({"health": well_but(discarded={"A": 1})}, 0, id="what was discarded never comes back"),
        pytest.param({"health": well_but(waiting=True)}, 300.1, id="events that may be discarded while they wait"),
    ],
)
def test_when_to_look_again(changes: dict[str, Any], seconds: float) -> None:
    assert resync_after(well(wish(channel(entry())), **changes)) == seconds
