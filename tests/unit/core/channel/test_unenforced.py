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


AUTHENTICATED = entry(auth={"serviceAccountName": "billing-oidc"})


@pytest.mark.parametrize(
    ("observed", "unseen"),
    [
        pytest.param({}, (), id="a stock Metacontroller"),
        pytest.param({"ConfigMap.v1": {}, POLICIES: {}}, (CONFIG_MAP,), id="a right is missing"),
    ],
)
def test_senders_that_are_not_authenticated_are_told_where_an_entry_gives_the_flag_away(observed, unseen) -> None:
    status, reason, message = told(observed, AUTHENTICATED, unseen=unseen)

    assert (status, reason) == ("False", "SendersNotAuthenticated")
    assert "authentication-oidc is on" in message


def test_senders_are_authenticated_where_the_flag_is_seen_and_the_functions_are_ours_to_make() -> None:
    asked = features(authentication_oidc="enabled")

    assert told(asked, AUTHENTICATED) == ("", "", "")
    (one,) = unenforced.condition(channel(AUTHENTICATED), asked, made=False)
    assert (one.reason, "HEADRACE_IMAGE" in one.message) == ("SendersNotAuthenticated", True)


def test_what_may_not_be_seen_is_told_where_there_is_knative_eventing() -> None:
    status, reason, message = told({POLICIES: {}}, unseen=(CONFIG_MAP, f"{POLICIES}/shop"))

    assert (status, reason) == ("Unknown", "SecurityNotSeen")
    assert "ConfigMap knative-eventing/config-features and EventPolicies" in message
    assert told({}, unseen=(CONFIG_MAP,)) == ("", "", "")


def test_a_stock_metacontroller_is_not_asked_for_what_it_may_not_serve() -> None:
    ours, stock = (related.rules(channel(), ReconcileSettings(), stock=stock) for stock in (False, True))

    asked = [(one.resource, one.namespace, one.optional) for one in ours[1:]]
    installed = [("configmaps", "knative-eventing", True), ("secrets", "knative-eventing", True)]
    assert asked == [*installed, ("eventpolicies", "shop", True)]
    assert [one.resource for one in stock] == ["subscriptions"]


@pytest.mark.parametrize(
    ("observed", "unseen", "asked"),
    [
        pytest.param({}, (), None, id="a stock Metacontroller shows no ConfigMaps"),
        pytest.param({"ConfigMap.v1": {}}, (CONFIG_MAP,), None, id="not to be seen, or not yet"),
        pytest.param({"ConfigMap.v1": {}}, (), False, id="there is none"),
        pytest.param(features(authentication_oidc="enabled"), (), True, id="enabled"),
        pytest.param(features(authentication_oidc="disabled"), (), False, id="disabled"),
    ],
)
def test_flags_are_known_where_their_config_map_can_be_seen(observed, unseen, asked) -> None:
    found = related.flags(observed, unseen)
    assert (None if found is None else found.oidc) is asked
