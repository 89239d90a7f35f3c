"""Who may send which events to a channel, by what the security document says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.core import names
from headrace.core.errors import Refused
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import DefaultMode, Flags
from headrace.core.security.senders import MOST_KNOWN, Senders

ORDERS = names.channel("shop", "orders").subject
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.shop.created"}
CREATED = ["all", [["exact", {"type": "com.shop.created"}]]]
DELETED = ["all", [["exact", {"type": "com.shop.deleted"}]]]


def account(name: str, namespace: str = "shop") -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def allows(subject: str, *policies: Any, mode: str = "deny-all", event: dict[str, str] = EVENT) -> str:
    """What is said of an event: nothing where it is let in."""
    channels = {"shop/orders": {"policies": list(policies)}} if policies else {}
    senders = Senders(SecurityDocument(1, Flags(oidc=True, default_mode=DefaultMode(mode)), channels=channels))
    verdict = senders.verdict(ORDERS, subject)
    assert senders.verdict(ORDERS, subject) is verdict
    try:
        verdict.check(event)
    except Refused as refusal:
        return str(refusal) if refusal.status == 403 else f"status {refusal.status}"
    return ""


def by(*subjects: str, filters: Any = None) -> dict[str, Any]:
    return {"name": "ep", "from": [*subjects], **({} if filters is None else {"filters": filters})}


@pytest.mark.parametrize(
    ("subject", "policies"),
    [
        pytest.param(account("a"), [by(account("a"))], id="by name"),
        pytest.param(account("a"), [by(account("A"))], id="in upper case, as Knative compares"),
        pytest.param(account("a"), [by(account("*"))], id="by a beginning"),
        pytest.param(account("a"), [by("*")], id="anybody"),
        pytest.param("a*", [by("a*")], id="a star in a name"),
        pytest.param(account("a"), [by(account("b")), by(account("a"))], id="by the second policy"),
        pytest.param(account("a"), [by(account("a"), filters=CREATED)], id="an event that passes the filters"),
        pytest.param(
            account("a"),
            [by("*", filters=DELETED), by(account("a"), filters=CREATED)],
            id="one of two policies is enough",
        ),
    ],
)
def test_let_in(subject: str, policies: list[Any]) -> None:
    assert allows(subject, *policies) == ""


@pytest.mark.parametrize(
    ("subject", "policies", "words"),
    [
        pytest.param(account("a"), [by(account("ab"))], "no EventPolicy of this channel lets", id="another's name"),
        pytest.param(account("ab"), [by(account("a"))], "no EventPolicy of this channel lets", id="a longer name"),
        pytest.param(account("a"), [by()], "no EventPolicy of this channel lets", id="a policy for nobody"),
        pytest.param(
            account("a"), [by("*:a")], "no EventPolicy of this channel lets", id="a star in front is a letter"
        ),
        pytest.param(
            account("A"), [by("system:serviceaccount:shop:a*")], "no EventPolicy", id="a beginning in upper case"
        ),
        pytest.param(account("a"), [by("*", filters=DELETED)], "send this event", id="an event that fails the filters"),
    ],
)
def test_kept_out(subject: str, policies: list[Any], words: str) -> None:
    said = allows(subject, *policies)
    assert words in said
    assert repr(subject) in said
    assert said.endswith("ask those who own the channel's namespace for an EventPolicy")


@pytest.mark.parametrize(
    ("mode", "subject", "let_in"),
    [
        pytest.param("allow-all", "anybody", True, id="all"),
        pytest.param("deny-all", account("a"), False, id="none"),
        pytest.param("allow-same-namespace", account("a"), True, id="own"),
        pytest.param("allow-same-namespace", account("a", "shop2"), False, id="a namespace with that beginning"),
        pytest.param("allow-same-namespace", account("shop:a", "ops"), False, id="a name with a colon"),
    ],
)
def test_default_mode_counts_where_no_policy_applies(mode: str, subject: str, *, let_in: bool) -> None:
    said = allows(subject, mode=mode)
    assert (said == "") is let_in
    assert let_in or f"default-authorization-mode is {mode}" in said


def test_default_mode_does_not_count_beside_a_policy() -> None:
    assert "no EventPolicy of this channel lets" in allows(account("b"), by(account("a")), mode="allow-all")


def test_policies_that_cannot_be_read_are_no_fault_of_the_sender() -> None:
    document = SecurityDocument(
        1, Flags(oidc=True, default_mode=DefaultMode.ALLOW_ALL), channels={"shop/orders": {"unreadable": "x is y"}}
    )
    with pytest.raises(Refused, match="nobody can say who may send to this channel: x is y") as refused:
        Senders(document).verdict(ORDERS, account("a")).check(EVENT)
    assert refused.value.status == 500


def test_an_event_of_a_sender_without_filters_needs_no_look() -> None:
    channels = {"shop/orders": {"policies": [by("a"), by("b", filters=CREATED), by("a", "b", filters=DELETED)]}}
    senders = Senders(SecurityDocument(1, Flags(oidc=True), channels=channels))
    assert [senders.verdict(ORDERS, one).any_event for one in "abc"] == [True, False, False]


@pytest.mark.parametrize("name", ["a.dotted.name", "n" * 63, "or--ders"])
def test_a_channel_whose_name_is_not_plain_in_nats_has_its_policies(name: str) -> None:
    document = SecurityDocument(
        1, Flags(oidc=True, default_mode=DefaultMode.ALLOW_ALL), channels={f"shop/{name}": {"policies": [by("a")]}}
    )
    with pytest.raises(Refused, match="no EventPolicy of this channel lets 'b'"):
        Senders(document).verdict(names.channel("shop", name).subject, "b").check(EVENT)


def test_what_is_remembered_is_bounded_and_a_known_sender_costs_a_look_up() -> None:
    policies = {"policies": [by(*(account(f"a{number}") for number in range(10_000)))]}
    senders = Senders(SecurityDocument(1, Flags(oidc=True), channels={"shop/orders": policies}))
    began = time.process_time()
    for number in range(3 * MOST_KNOWN):
        senders.verdict(names.channel("other", "orders").subject, f"stranger-{number}")
    for _ in range(10_000):
        senders.verdict(ORDERS, account("a9999"))
    assert time.process_time() - began < 2.0
