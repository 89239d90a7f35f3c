"""Demands of Knative's security on a channel that Headrace does not meet, and the condition that tells so."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import related, unenforced
from headrace.core.installation.reconcile_settings import ReconcileSettings
from tests.support.functions.channels import channel, entry

POLICIES = "EventPolicy.eventing.knative.dev/v1alpha1"
CONFIG_MAP = "ConfigMap.v1/knative-eventing/config-features"


def features(**flags: str) -> dict[str, Any]:
    data = {name.replace("_", "-"): value for name, value in flags.items()}
    metadata = {"namespace": "knative-eventing", "name": "config-features"}
    return {"ConfigMap.v1": {"knative-eventing/config-features": {"metadata": metadata, "data": data}}, POLICIES: {}}


def told(observed: dict[str, Any], *entries: Any, unseen: tuple[str, ...] = ()) -> tuple[str, str, str]:
    parent = channel(*entries)
    parent["metadata"]["labels"] = {"team": "shop"}
    found = unenforced.condition(parent, observed, unseen)
    if not found:
        return "", "", ""
    (one,) = found
    assert (one.type, one.holds, one.informative) == ("SecurityEnforced", False, True)
    return "Unknown" if one.unknown else "False", one.reason, one.message


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param({}, id="a cluster without the kind"),
        pytest.param(features(transport_encryption="permissive", authentication_oidc="disabled"), id="flags"),
    ],
)
def test_nothing_is_told_where_nothing_is_asked_for(observed: dict[str, Any]) -> None:
    assert told(observed) == ("", "", "")


def test_strict_encryption_is_told() -> None:
    status, reason, message = told(features(transport_encryption="Strict"))

    assert (status, reason) == ("False", "EncryptionNotEnforced")
    assert "transport-encryption: strict" in message


@pytest.mark.parametrize(
    ("observed", "entries"),
    [
        pytest.param(features(authentication_oidc="enabled"), [], id="the flag is seen"),
        pytest.param({}, [entry(auth={"serviceAccountName": "billing-oidc"})], id="an entry gives it away"),
    ],
)
def test_senders_that_are_not_authenticated_are_told(observed: dict[str, Any], entries: list[Any]) -> None:
    status, reason, message = told(observed, *entries)

    assert (status, reason) == ("False", "SendersNotAuthenticated")
    assert "authentication-oidc: enabled" in message


def test_all_of_it_is_told_in_one_condition() -> None:
    both = features(transport_encryption="strict", authentication_oidc="enabled")

    assert told(both)[1] == "EncryptionNotEnforced"
    assert "authentication-oidc: enabled" in told(both)[2]


def test_what_may_not_be_seen_is_told_where_there_is_knative_eventing() -> None:
    status, reason, message = told({POLICIES: {}}, unseen=(CONFIG_MAP, f"{POLICIES}/shop"))

    assert (status, reason) == ("Unknown", "SecurityNotSeen")
    assert "ConfigMap knative-eventing/config-features and EventPolicies" in message
    assert told({}, unseen=(CONFIG_MAP,)) == ("", "", "")


def test_a_stock_metacontroller_is_not_asked_for_what_it_may_not_serve() -> None:
    ours, stock = (related.rules(channel(), ReconcileSettings(), stock=stock) for stock in (False, True))

    asked = [(one.resource, one.namespace, one.optional) for one in ours[1:]]
    assert asked == [("configmaps", "knative-eventing", True), ("eventpolicies", "shop", True)]
    assert [one.resource for one in stock] == ["subscriptions"]
