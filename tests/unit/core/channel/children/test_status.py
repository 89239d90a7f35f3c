"""The meaning of a channel's functions for its status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.channel.binding import Binding
from headrace.core.channel.children import Functions, ServedConsumer
from headrace.core.channel.desired import Desired, desired
from headrace.core.channel.lease_places import Forward
from headrace.core.channel.leaving import Leaver
from headrace.core.channel.plan import Observed, Problem
from headrace.core.channel.status import Result, status
from headrace.core.conditions import Condition
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest.channel_status import ChannelStatus
from tests.support.functions.channels import channel, entry

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
NOT_OURS = Problem("StreamNotOurs", "stream KN_SHOP__ORDERS exists and belongs to channel shop/other")


def wish(parent: dict[str, Any]) -> Desired:
    found = desired(parent, ReconcileSettings())
    assert isinstance(found, Desired)
    return found


def well(asked: Desired, **changes: Any) -> Result:
    """Every entry has its consumer."""
    bindings = tuple(Binding(row.uid, row.generation, row.subscriber, f"KN_SUB_{row.uid}") for row in asked.rows)
    observed = Observed(asked.wanted.config, asked.wanted.aside)
    return Result(observed, bindings=bindings, refusals={}, **changes)


def of(api_version: str, component: str) -> dict[str, Any]:
    """An object of a function."""
    name, labels = api_version.split("/")[0], {"app.kubernetes.io/component": component}
    return {"apiVersion": api_version, "metadata": {"namespace": "knative-eventing", "name": name, "labels": labels}}


def test_functions_tell_where_the_channel_is_and_who_delivers() -> None:
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))
    asked = wish(parent)
    forwards = {"KN_SUB_aaaa-1": Forward("http://forward-a"), "KN_SUB_bbbb-2": Forward("http://b", pulls=True)}
    functions = Functions(
        urls=("http://receive/shop/orders", "http://orders-kn-jsm-channel.shop.svc"),
        forwards=forwards,
        conditions=(Condition("FunctionsReady", False, "FunctionFailed", "forward-a: no such image"),),
        objects=(of("v1", "forward"), of("apps/v1", "receive"), of("serving.knative.dev/v1", "receive")),
    )

    body = status(parent, asked, well(asked, functions=functions), NOON)

    assert body["address"] == {"url": "http://receive/shop/orders"}
    # With encryption off Knative's own channels tell of one, too.
    assert "addresses" not in body
    assert body["consumers"] == [
        {"uid": "aaaa-1", "name": "billing", "durable": "KN_SUB_aaaa-1", "forward": "http://forward-a"},
        {"uid": "bbbb-2", "name": "mail", "durable": "KN_SUB_bbbb-2", "forward": "http://b", "pulls": True},
    ]
    (ready,) = (one for one in body["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "FunctionFailed")
    assert ChannelStatus.model_validate(body).consumers[1].pulls
    assert ChannelStatus.model_validate(body).receive == "knative-eventing/serving.knative.dev"


def test_while_consumers_are_out_of_reach_it_stays_said_who_delivers() -> None:
    consumers = [{"uid": "aaaa-1", "durable": "KN_SUB_A", "forward": "http://forward-a"}]
    parent = channel(entry(), status={"consumers": consumers})
    asked = wish(parent)

    body = status(parent, asked, Result(Observed(None, None), (NOT_OURS,)), NOON)

    assert body["consumers"] == consumers


def test_a_consumer_that_may_come_back_keeps_its_function_until_it_goes() -> None:
    asked = wish(channel(entry()))
    subscriber = asked.rows[0].subscriber
    assert subscriber is not None
    waiting = Leaver("KN_SUB_gone", (), timedelta(seconds=45), subscriber)
    going = Leaver("KN_SUB_old", (), timedelta())

    assert well(asked, leavers=(waiting, going)).served == (
        ServedConsumer("KN_SUB_aaaa-1", subscriber),
        ServedConsumer("KN_SUB_gone", subscriber),
    )
    assert Result(Observed(None, None)).served is None
