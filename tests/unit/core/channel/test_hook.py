"""The hook's contract: what one side writes the other reads back equal."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel.customize import CustomizeAnswer, RelatedRule
from headrace.core.channel.guests import Guests
from headrace.core.channel.hook import HookRequest, HookResponse, Installation, KubeEvent, Reference
from headrace.core.errors import InvalidSpec
from tests.support.functions.channels import channel, entry

# What can't be encoded does not come over the wire.
words = st.text(st.characters(codec="utf-8"), max_size=8)
some_words = st.frozensets(words, max_size=3)
objects = st.dictionaries(
    words,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)
observed = st.dictionaries(words, st.dictionaries(words, objects, max_size=2), max_size=2)
numbers = st.integers(0, 1000)
parents = st.builds(lambda name, spec: {**channel(entry(), name=name), "spec": spec}, words, objects)
requests = st.builds(
    HookRequest,
    parents,
    children=observed,
    related=observed,
    finalizing=st.booleans(),
    complete=some_words,
    absent=some_words,
    unserved=some_words,
    unseen=some_words,
    ending=st.booleans(),
    apis=st.none() | some_words,
    shared=st.none() | observed,
    watched=words,
    lacking=st.dictionaries(words, words, max_size=2),
    tokens=st.none() | st.dictionaries(words, words, max_size=2),
    guests=st.dictionaries(words, st.builds(Guests, numbers, st.dictionaries(words, numbers, max_size=2)), max_size=2),
)
seconds = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
responses = st.builds(
    HookResponse,
    st.none() | objects,
    st.lists(objects, max_size=2).map(tuple),
    seconds,
    st.none() | st.booleans(),
    st.lists(st.builds(Reference, words, words, words, words, words), max_size=2).map(tuple),
    st.lists(words, max_size=2).map(tuple),
    st.lists(st.builds(KubeEvent, words, words, words), max_size=2).map(tuple),
    st.none() | st.builds(Installation, words, seconds),
)
rules = st.builds(
    RelatedRule, words, words, words, words, st.lists(words, max_size=2).map(tuple), st.booleans(), st.booleans()
)
customize_answers = st.builds(
    CustomizeAnswer, st.lists(rules, max_size=3).map(tuple), st.dictionaries(words, words, max_size=2)
)


@given(requests)
def test_a_request_is_read_as_it_was_written(request: HookRequest) -> None:
    assert HookRequest.from_json(request.to_json()) == request


@given(requests)
def test_related_objects_that_are_written_already_are_sent_as_they_are(request: HookRequest) -> None:
    assert HookRequest.from_json(request.to_json(json.dumps(request.related).encode())) == request


@given(responses)
def test_an_answer_is_read_as_it_was_written(response: HookResponse) -> None:
    assert HookResponse.from_json(json.loads(json.dumps(response.to_json()))) == response


@given(customize_answers)
def test_so_is_the_answer_to_customize(answer: CustomizeAnswer) -> None:
    assert CustomizeAnswer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


@given(responses)
def test_a_member_that_is_not_known_changes_nothing(response: HookResponse) -> None:
    body = response.to_json()
    later = {**body, "later": 1, "headrace": {**body.get("headrace", {}), "later": 1}}
    assert HookResponse.from_json(later) == response


def test_an_answer_may_leave_out_what_it_does_not_say() -> None:
    assert HookResponse.from_json({}) == HookResponse()


def test_a_time_that_has_passed_is_no_time_to_wait() -> None:
    assert HookResponse.from_json({"resyncAfterSeconds": -1}).resync_after_seconds == 0


def in_itself() -> dict[str, Any]:
    labels: dict[str, Any] = {}
    labels["x"] = labels
    return labels


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def test_the_request_is_that_of_a_composite_controller() -> None:
    assert json.loads(HookRequest({"kind": "Ä"}, finalizing=True).to_json()) == {
        "controller": {},
        "parent": {"kind": "Ä"},
        "children": {},
        "related": {},
        "finalizing": True,
        "headrace": {"complete": [], "absent": [], "unserved": [], "unseen": [], "ending": False, "watched": ""},
    }


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(in_itself(), id="an object that holds itself"),
        pytest.param(float("nan"), id="not a number"),
        pytest.param(datetime.date(2026, 1, 1), id="a date"),
        pytest.param({b"a": 1}, id="a key of bytes"),
        pytest.param(deep(), id="too deep"),
    ],
)
def test_what_json_can_not_hold_is_a_fault_of_the_object(value: object) -> None:
    with pytest.raises(InvalidSpec, match="the object can't be written as JSON"):
        HookRequest({"metadata": value}).to_json()


@pytest.mark.parametrize(
    ("field", "value", "known"),
    [
        ("apiVersion", "messaging.knative.dev/v1", "messaging.knative.dev/v1alpha1"),
        ("kind", "Channel", "NatsJetStreamChannel"),
    ],
)
def test_the_parent_is_of_the_one_kind_and_version_that_is_known(field: str, value: str, known: str) -> None:
    parent = {**channel(), field: value}

    with pytest.raises(InvalidSpec, match=rf"body.parent.{field} is '{value}': only {known} is known here"):
        HookRequest.from_json(json.dumps({"parent": parent}).encode())
