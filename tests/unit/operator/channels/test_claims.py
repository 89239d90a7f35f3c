"""Which functions are guests in another namespace than their channels', and who may share a child."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_operator.channels.claims import Indexed, host_of, may_share
from headrace_operator.kube.kinds import DEPLOYMENT, Kind, key

SERVICE, KSVC = Kind("v1", "Service", "services"), Kind("serving.knative.dev/v1", "Service", "services")


def child(name: str = "forward", place: str = "system", channel: str = "shop/orders", **labels: str) -> dict[str, Any]:
    annotations = {"headrace.dev/channel": channel} if channel else {}
    return {"metadata": {"name": name, "namespace": place, "annotations": annotations, "labels": labels}}


@pytest.mark.parametrize(
    ("kind", "body", "host"),
    [
        pytest.param(DEPLOYMENT, child(), "shop", id="a Deployment"),
        pytest.param(KSVC, child(), "shop", id="a Knative Service"),
        pytest.param(SERVICE, child(), "", id="the Service of a Deployment is no function more"),
        pytest.param(DEPLOYMENT, child(place="shop"), "", id="at home"),
        pytest.param(DEPLOYMENT, child(channel=""), "", id="of no channel"),
        pytest.param(DEPLOYMENT, child(**{"headrace.dev/shared": "true"}), "", id="of several channels"),
        pytest.param(DEPLOYMENT, None, "", id="gone"),
    ],
)
def test_a_guest_is_a_function_elsewhere_than_its_channel(kind: Kind, body: dict[str, Any] | None, host: str) -> None:
    assert host_of((kind, ("", "") if body is None else key(body)), body) == host


def test_guests_come_and_go_with_the_objects() -> None:
    index, body = Indexed(), child()
    spot = (DEPLOYMENT, key(body))

    index.move(spot, None, body)
    assert index.guests == {"shop": {spot}}
    index.move(spot, body, child(channel="bank/orders"))
    assert index.guests == {"bank": {spot}}
    index.move(spot, child(channel="bank/orders"), None)
    assert index.guests == {}


@pytest.mark.parametrize(
    ("labels", "place", "may"),
    [
        pytest.param({}, "system", True, id="everybody's"),
        pytest.param({"headrace.dev/scope": "namespace"}, "system", False, id="of channels of its own namespace"),
        pytest.param({"headrace.dev/scope": "namespace"}, "shop", True, id="of this namespace"),
        pytest.param({"headrace.dev/tenant": "shop"}, "system", True, id="of this tenant"),
        pytest.param({"headrace.dev/tenant": "bank"}, "system", False, id="of another tenant"),
    ],
)
def test_a_channel_is_shown_what_it_may_share(labels: dict[str, str], place: str, may: bool) -> None:
    assert may_share(child(place=place, channel="", **labels), "shop") is may
