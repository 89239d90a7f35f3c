"""The tokens of a lease: how they travel, where they are not shown, and what a 401 says of one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.core.delivery import bearer, lease
from headrace.core.delivery.bearer import Bearer, Shown
from headrace.core.delivery.lease import Lease, Tally
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import InvalidSpec

SECRET = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJiaWxsaW5nIn0.c2VjcmV0"
BILLING, PLAIN = Destination("http://billing/", audience="billing"), Destination("http://plain/")


def read(tokens: object) -> Lease:
    body = json.dumps({"stream": "S", "consumer": "C", "tokens": tokens}).encode()
    return lease.parse_request(body, max_in_flight=100, max_bytes=1000)


def shown(age: float, told: list[str] | None = None) -> Shown:
    on_outdated = (lambda: None) if told is None else (lambda: told.append("outdated"))
    return Shown({"billing": Bearer(SECRET, age)}, lambda: 0.0, on_outdated)


def test_tokens_survive_the_wire_and_are_in_no_words_about_the_lease() -> None:
    asked = Lease("S", "C", tokens={"billing": Bearer(SECRET, 7.5)})
    body = json.dumps(asked.to_json()).encode()
    assert SECRET.encode() in body
    again = lease.parse_request(body, max_in_flight=100, max_bytes=16 * 1024 * 1024)
    assert again.tokens == asked.tokens
    assert SECRET not in repr(again)
    assert SECRET not in str(again.tokens)
    assert "tokens" not in Lease("S", "C").to_json()


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param([SECRET], id="a list"),
        pytest.param({"billing": SECRET}, id="a bare token"),
        pytest.param({"billing": {"token": f"{SECRET}\r\nx: y", "age": 0}}, id="a line break"),
        pytest.param({"billing": {"token": f"{SECRET}é", "age": 0}}, id="a letter that no header has"),
        pytest.param({"billing": {"token": SECRET * 1000, "age": 0}}, id="an endless one"),
        pytest.param({"billing": {"token": "", "age": 0}}, id="an empty one"),
        pytest.param({"billing": {"token": SECRET, "age": -1}}, id="an age below zero"),
        pytest.param({"billing": {"token": SECRET, "age": float("nan")}}, id="an age that is no number"),
        pytest.param({"billing": {"token": SECRET}}, id="no age"),
        pytest.param({name: {"token": SECRET, "age": 0} for name in "abcd"}, id="more than an entry has addresses"),
    ],
)
def test_what_is_no_token_is_refused_without_being_quoted(tokens: Any) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read(tokens)
    assert refused.value.field == "tokens"
    assert SECRET not in str(refused.value)


def test_an_age_beyond_any_float_is_an_old_token() -> None:
    assert Shown(read({"billing": {"token": SECRET, "age": 10**400}}).tokens).refused(BILLING)


def test_the_largest_tokens_of_a_lease_fit_into_its_body() -> None:
    most = {f"{name * 200}": Bearer("x" * bearer.LONGEST, 1e9) for name in "abc"}
    assert len(json.dumps(Lease("S" * 255, "C" * 255, tokens=most).to_json())) < 64 * 1024


def test_only_an_address_with_that_audience_gets_the_token() -> None:
    one = shown(0)
    assert one.headers(BILLING) == ((b"authorization", f"Bearer {SECRET}".encode()),)
    assert one.headers(PLAIN) == ()
    assert one.headers(Destination("http://other/", audience="other")) == ()


def test_a_token_that_was_just_made_is_no_better_made_anew() -> None:
    told: list[str] = []
    one = shown(59.9, told)
    assert not one.refused(BILLING)
    assert not one.refused(PLAIN)
    assert (one.outdated, told) == (set(), [])


def test_a_refused_token_of_some_age_is_outdated_and_the_lease_ends() -> None:
    told: list[str] = []
    one = shown(60, told)
    assert not one.withheld(BILLING, "")
    assert one.refused(BILLING)
    assert (one.outdated, told) == ({"billing"}, ["outdated"])
    assert one.withheld(BILLING, "")
    assert not one.withheld(PLAIN, "")
    assert lease.answer(Tally(outdated=one.outdated), pending=0, ack_pending=0, now=0).outdated == ("billing",)


def test_a_token_ages_while_the_lease_is_open() -> None:
    now = [0.0]
    one = Shown({"billing": Bearer(SECRET, 50)}, lambda: now[0])
    now[0] = 10.0
    assert one.refused(BILLING)


def test_an_event_is_not_shown_the_token_again_that_it_was_refused_with() -> None:
    told: list[str] = []
    one = shown(5, told)
    assert not one.withheld(BILLING, Bearer("another").mark)
    assert one.withheld(BILLING, one.mark(BILLING))
    assert told == ["outdated"]
    assert SECRET not in one.mark(BILLING)


def test_an_answer_that_repeats_the_token_is_kept_without_it() -> None:
    assert shown(0).hidden(f"you sent Bearer {SECRET}!".encode()) == b"you sent Bearer ***!"


@pytest.mark.parametrize("told", [["billing"], []])
def test_the_answer_names_the_audiences_whose_tokens_are_outdated(told: list[str]) -> None:
    found = lease.answer(Tally(outdated=told), pending=1, ack_pending=2, now=0)
    assert lease.read_answer(json.loads(json.dumps(found.to_json()))) == found
    assert ("outdated_tokens" in found.to_json()) is bool(told)


def test_a_token_that_the_end_of_an_answer_cuts_is_hidden_too() -> None:
    token = "eyJhbGciOiJSUzI1NiIs" + "payload" * 40
    bearers = {"a": Bearer(token)}
    for left in (20, len(token) - 1):
        assert bearer.hidden(b'{"authorization":"Bearer ' + token[:left].encode(), bearers) == (
            b'{"authorization":"Bearer ***'
        )
    assert bearer.hidden(token.encode() * 2 + b" and more", bearers) == b"****** and more"
    assert bearer.hidden(token[:20].encode() + b" and more", bearers) == token[:20].encode() + b" and more"
