"""Which EventPolicies apply to a channel, and what its status and the security document get of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel import event_policies
from headrace.core.security.flags import DefaultMode, Flags
from headrace.core.security.policy import MOST_COST, MOST_SUBJECTS, Applied
from tests.support.functions.channels import channel

POLICIES = "EventPolicy.eventing.knative.dev/v1alpha1"
ORDERS = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}
LABELLED = {"apiVersion": "messaging.knative.dev/v1", "kind": "natsjetstreamchannel"}
ON = Flags(oidc=True)


def policy(
    spec: dict[str, Any] | None = None, *subjects: str, name: str = "ep-1", ready: str = "True", **metadata: Any
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": name, **metadata},
        "spec": spec or {},
        "status": {"from": list(subjects), "conditions": [{"type": "Ready", "status": ready}]},
    }


def applied(*policies: Any, flags: Flags = ON, unseen: tuple[str, ...] = ()) -> Applied:
    parent = channel()
    parent["metadata"]["labels"] = {"team": "shop"}
    observed = {POLICIES: {f"shop/{number}": one for number, one in enumerate(policies)}}
    return event_policies.applied(parent, observed, flags, unseen)


def told(*policies: Any, flags: Flags = ON, unseen: tuple[str, ...] = ()) -> tuple[bool, str, str]:
    found = applied(*policies, flags=flags, unseen=unseen).condition
    assert found is not None
    assert found.type == "EventPoliciesReady"
    assert found.informative is not flags.oidc
    return found.holds, found.reason, found.message


@pytest.mark.parametrize(
    "to",
    [
        pytest.param(None, id="without `to` it is for all of its namespace"),
        pytest.param([], id="so with an empty one"),
        pytest.param([{"ref": ORDERS}], id="by name"),
        pytest.param(
            [{"ref": {**ORDERS, "apiVersion": "messaging.knative.dev/v9", "kind": "NATSJetStreamChannel"}}], id="case"
        ),
        pytest.param([{"ref": {**ORDERS, "name": "other"}}, {"ref": ORDERS}], id="the second of two"),
        pytest.param([{"selector": {**LABELLED, "matchLabels": {}}}], id="every one of the kind"),
        pytest.param([{"selector": {**LABELLED, "matchLabels": {"team": "shop"}}}], id="by label"),
        pytest.param(
            [{"selector": {**LABELLED, "matchExpressions": [{"key": "team", "operator": "In", "values": ["shop"]}]}}],
            id="by expression",
        ),
    ],
)
def test_a_policy_that_applies_counts(to: Any) -> None:
    found = applied(policy({} if to is None else {"to": to}, "a"))

    assert found.names == ("ep-1",)
    assert found.part == {"policies": [{"name": "ep-1", "from": ["a"]}]}
    assert told(policy({} if to is None else {"to": to}, "a")) == (True, "", "")


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(policy({"to": [{"ref": {**ORDERS, "name": "other"}}]}), id="another channel's"),
        pytest.param(policy({"to": [{"ref": {**ORDERS, "kind": "InMemoryChannel"}}]}), id="another kind's"),
        pytest.param(policy({"to": [{"ref": {**ORDERS, "apiVersion": "v1"}}]}), id="another group's"),
        pytest.param(policy(namespace="ops"), id="another namespace's"),
        pytest.param(policy(deletionTimestamp="2026-01-31T12:00:00Z"), id="it is going"),
        pytest.param(policy({"to": [{"selector": LABELLED}]}), id="a selector that says nothing, as in Knative"),
        pytest.param(policy({"to": [{"selector": {**LABELLED, "matchLabels": {"team": "ops"}}}]}), id="label"),
        *(
            pytest.param(policy({"to": [{"selector": {**LABELLED, "matchExpressions": [term]}}]}), id=str(term))
            for term in (
                {"key": "team", "operator": "In", "values": ["ops"]},
                {"key": "team", "operator": "NotIn", "values": ["shop"]},
                {"key": "tier", "operator": "Exists"},
                {"key": "team", "operator": "DoesNotExist"},
            )
        ),
    ],
)
def test_where_no_policy_applies_the_default_mode_counts_and_is_told(one: Any) -> None:
    flags = Flags(oidc=True, default_mode=DefaultMode.DENY_ALL)
    assert applied(one, flags=flags).part is None
    assert applied(one, flags=flags).names == ()
    assert told(one, flags=flags) == (
        True,
        "DefaultAuthorizationMode",
        "no EventPolicy applies; default-authorization-mode is deny-all: nobody may send",
    )


def test_policies_are_sorted_by_name() -> None:
    assert applied(policy(name="b"), policy(name="a"), policy(name="a-1")).names == ("a", "a-1", "b")


def test_without_the_flag_policies_are_told_and_do_not_keep_a_channel_from_being_ready() -> None:
    off = Flags()
    assert applied(flags=off) == Applied()
    found = applied(*(policy(name=f"ep-{number}") for number in range(7)), flags=off)
    assert found.names == ()
    # For the moment when the flag counts.
    assert found.part == applied(*(policy(name=f"ep-{number}") for number in range(7))).part
    holds, reason, message = told(*(policy(name=f"ep-{number}") for number in range(7)), flags=off)
    assert (holds, reason) == (False, "OIDCDisabled")
    assert message.startswith("EventPolicies 'ep-0', 'ep-1', 'ep-2', 'ep-3', 'ep-4' and 2 more are not enforced")
    assert message.endswith("policies need authentication-oidc: enabled in Knative's config-features")


def test_a_policy_that_is_not_ready_is_told_and_lets_nobody_in() -> None:
    both = policy({}, "a", name="ep-1"), policy({}, "b", name="ep-2", ready="False")
    words = "EventPolicy 'ep-2' is not Ready, and lets nobody in: look at its conditions"
    assert told(*both) == (False, "EventPoliciesNotReady", words)
    assert applied(*both).part == {"policies": [{"name": "ep-1", "from": ["a"]}]}


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_where_no_policy_that_applies_is_ready_the_default_mode_does_not_count(ready: str) -> None:
    found = applied(policy(ready=ready), flags=Flags(oidc=True, default_mode=DefaultMode.ALLOW_ALL))
    assert found.part == {"unreadable": "EventPolicy 'ep-1' is not Ready, and lets nobody in: look at its conditions"}


def test_policies_that_may_not_be_seen_close_the_channel() -> None:
    found = applied(unseen=(POLICIES,))
    words = "the operator may not see EventPolicies, which say who may send to this channel: see docs/rbac.md"
    assert found.part == {"unreadable": words}
    assert told(unseen=(POLICIES,)) == (False, "EventPoliciesGetFailed", words)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"to": 5}, "may be for this channel: spec.to is 5, no list", id="to"),
        pytest.param({"to": [5]}, "may be for this channel: spec.to[0] has neither ref nor selector", id="target"),
        pytest.param(
            {"to": [{"ref": ORDERS}, {"ref": {**ORDERS, "apiVersion": "a/b/c"}}]},
            "may be for this channel: spec.to[1].ref.apiVersion is 'a/b/c', no GROUP/VERSION",
            id="group",
        ),
        pytest.param(
            {"to": [{"selector": {**LABELLED, "matchExpressions": [{"key": "team", "operator": "Later"}]}}]},
            "has the operator 'Later', which nobody here knows",
            id="an operator that nobody knows yet",
        ),
        pytest.param({"filters": [{"cesql": "a ="}]}, "lets nobody in: spec.filters[0].cesql is 'a ='", id="cesql"),
        pytest.param(
            {"filters": [{"cesql": " OR ".join(["a"] * MOST_COST)}]}, "has 49996 characters, at most 4096", id="long"
        ),
        pytest.param(
            {"filters": [{"all": [{"exact": {"id": "1"}}] * (MOST_COST + 1)}]},
            "have 10001 comparisons and operations in filters, at most 10000 are read: make them fewer or shorter",
            id="dear",
        ),
        pytest.param({"filters": [{"exact": {"id": "x" * 70_000}}]}, "characters, at most 65536 are read", id="large"),
    ],
)
def test_a_policy_that_cannot_be_obeyed_is_told_and_closes_the_channel(spec: Any, words: str) -> None:
    holds, reason, message = told(policy(spec, "a"))
    assert (holds, reason) == (False, "EventPoliciesGetFailed")
    assert message.startswith("EventPolicy 'ep-1' ")
    assert words in message
    assert applied(policy(spec, "a")).part == {"unreadable": message}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param({"from": "a"}, "status.from is 'a', no list of texts", id="no list"),
        pytest.param({"from": [1]}, "status.from is [1], no list of texts", id="no texts"),
        pytest.param({"from": ["a" * 1025]}, "a subject of over 1024 characters", id="long"),
        pytest.param({"from": ["a"] * (MOST_SUBJECTS + 1)}, "have 10001 subjects, at most 10000", id="many"),
    ],
)
def test_subjects_that_cannot_be_read_are_told(status: Any, words: str) -> None:
    one = policy()
    one["status"].update(status)
    assert words in told(one)[2]


def test_of_thousands_of_policies_those_count_for_which_there_is_room() -> None:
    many = [policy({}, "a" * 100, name=f"ep-{number:04}") for number in range(3000)]
    found = applied(*many)
    assert 300 < len(found.names) < 3000
    holds, reason, message = told(*many)
    assert (holds, reason) == (False, "EventPoliciesGetFailed")
    assert message.endswith(f"and {3000 - len(found.names) - 5} more")
    assert len(message) < 2000


def test_words_of_strangers_are_shown_harmless() -> None:
    assert "\x1b" not in told(policy(name="ep\x1b[2J", ready="False"))[2]


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["to", "ref", "selector", "kind", "apiVersion", "matchExpressions", "filters", "x"]), inner
        ),
    ),
    max_leaves=12,
)


@given(spec=_JSON, status=_JSON)
def test_whatever_a_policy_holds_it_never_opens_the_channel(spec: Any, status: Any) -> None:
    one = {"metadata": {"namespace": "shop", "name": "ep"}, "spec": spec, "status": status}
    found = applied(one, policy({}, "a", name="other"))
    assert found.part is not None
