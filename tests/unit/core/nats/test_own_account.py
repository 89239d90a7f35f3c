"""Calls of one `reconcile` to another: a call means the same on both sides, and so does its result."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest

from headrace.core.errors import HeadraceError, InvalidSpec, NotLetIn, Refused, Unavailable
from headrace.core.installation.secret_files import SecretFile
from headrace.core.installation.secret_names import SecretNames, from_json
from headrace.core.nats import own_account as lent
from headrace.core.nats.action import Action, Done, Rejected


def some(kind: type[Any]) -> Any:
    values = {"config": {"name": "S", "metadata": {"a": "b"}}, "sequence": 7}
    return kind(**{field.name: values.get(field.name, f"a {field.name}") for field in dataclasses.fields(kind)})


@pytest.mark.parametrize("kind", get_args(Action), ids=lambda kind: kind.__name__)
def test_every_action_arrives_as_it_was_sent(kind: type[Any]) -> None:
    call = lent.Call("carry_out", (some(kind),))

    assert lent.read_call(call.to_bytes()) == call


def test_arguments_arrive_as_they_were_sent() -> None:
    call = lent.Call("add", ("S_aside", "shop.orders._knative_aside.stage.C.discarded.total", 3))

    assert lent.read_call(call.to_bytes()) == call


@pytest.mark.parametrize("outcome", [Done({}), Done({"name": "S"}), Rejected("no room")])
def test_what_came_of_an_action_arrives(outcome: Done | Rejected) -> None:
    assert lent.read_outcome(lent.read_answer(json.dumps(lent.answer(outcome)).encode(), "carry_out")) == outcome


@pytest.mark.parametrize(
    ("call", "result"),
    [("stream", None), ("count", 0), ("info", {"config": {"metadata": {"a": "b"}}}), ("consumers", []), ("add", None)],
)
def test_every_result_arrives_nothing_included(call: str, result: Any) -> None:
    assert lent.read_answer(json.dumps(lent.answer(result)).encode(), call) == result


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("stream", 5),
        ("stream", "x"),
        ("stream", [1]),
        ("stream", {"metadata": {"a": 1}}),
        ("stream", {"metadata": [1]}),
        ("info", {"config": 5}),
        ("info", {"config": {"metadata": "x"}}),
        ("info", {"state": [1]}),
        ("consumers", None),
        ("consumers", [None]),
        ("consumer_infos", {"a": 1}),
        ("count", None),
        ("number", True),
        ("number", "7"),
        ("text", 7),
        ("add", 1),
        ("carry_out", None),
        ("carry_out", {}),
        ("carry_out", {"done": 5}),
        ("named", [1]),
    ],
)
def test_a_result_that_its_call_can_not_have_is_somebody_elses(call: str, result: Any) -> None:
    with pytest.raises(Unavailable, match="no answer of reconcile"):
        lent.read_answer(json.dumps({"result": result}).encode(), call)


@pytest.mark.parametrize("status", ["200", "0", "-1", "99999", "true", "1e400", '"x"', "null"])
def test_a_refusal_can_not_choose_any_status(status: str) -> None:
    body = b'{"failure": "Refused", "words": "' + b"w" * 5000 + b'", "status": ' + status.encode() + b"}"
    with pytest.raises(Refused) as refused:
        lent.read_answer(body, "stream")

    assert (refused.value.status, len(str(refused.value))) == (503, lent.LONGEST_WORDS)


def test_words_of_a_rejection_have_an_end() -> None:
    assert lent.read_outcome({"rejected": "w" * 5000}) == Rejected("w" * lent.LONGEST_WORDS)


@pytest.mark.parametrize(
    "error", [NotLetIn("who are you"), Unavailable("away"), Refused("not allowed", status=403)], ids=repr
)
def test_every_failure_is_the_same_on_the_other_side(error: Unavailable | Refused) -> None:
    with pytest.raises(HeadraceError) as raised:
        lent.read_answer(json.dumps(lent.failure(error)).encode(), "stream")

    assert (type(raised.value), str(raised.value)) == (type(error), str(error))
    assert getattr(raised.value, "status", None) == getattr(error, "status", None)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"failure": "Refused"}', b"[" * 100_000])
def test_what_is_no_answer_is_somebody_elses(body: bytes) -> None:
    with pytest.raises(Unavailable, match="no answer of reconcile"):
        lent.read_answer(body, "stream")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"call": "close", "arguments": []}',
        b'{"call": ["stream"], "arguments": []}',
        b'{"call": "carry_out", "arguments": [{"action": "DeleteStream", "subject": "x"}]}',
        b'{"call": "carry_out", "arguments": ["x"]}',
        b'{"call": "carry_out", "arguments": [null]}',
        b'{"call": "carry_out", "arguments": [{"action": "CreateStream", "config": {}}]}',
        b'{"call": "carry_out", "arguments": [{"action": "PurgeSubjects", "stream": "S", "subjects": null}]}',
        b'{"call": "carry_out", "arguments": [{"action": "PurgeSubjects", "stream": "S", "subjects": ""}]}',
        b'{"call": "add", "arguments": ["S", "s", 1.5]}',
        b'{"call": "add", "arguments": ["S", "s", -5]}',
        b'{"call": "add", "arguments": ["S", "s", true]}',
        b'{"call": "stream", "arguments": "x"}',
        b'{"call": "stream", "arguments": []}',
        b'{"call": "stream", "arguments": ["a", "b"]}',
        b'{"call": "stream", "arguments": [5]}',
    ],
)
def test_what_is_no_call_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidSpec) as refused:
        lent.read_call(body)

    assert refused.value.field == "body"


def test_names_of_secrets_arrive_as_they_were_told() -> None:
    told = SecretNames(
        (SecretFile("a", "k", "token"),), (SecretFile("b", "k", "ca.crt", optional=True),), "config", "broken"
    )

    assert from_json(json.loads(json.dumps(told.to_json()))) == told


@pytest.mark.parametrize(
    "change",
    [
        {"secret": 5},
        {"secret": "../../x"},
        {"secret": "A"},
        {"key": "../../k"},
        {"key": ".."},
        {"key": {}},
        {"file": "../../../etc/x"},
        {"file": [1]},
        {"optional": "yes"},
        {"more": 1},
    ],
    ids=repr,
)
def test_names_that_no_secret_can_have_are_told_by_nobody_of_ours(change: dict[str, Any]) -> None:
    told = {"secret": "a", "key": "k", "file": "token", "optional": True}
    body = {"secrets": [{**told, **change}], "missing": [], "config_map": "", "problem": ""}
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_json(body)


def test_what_is_told_of_secrets_has_an_end() -> None:
    one = {"secret": "a", "key": "k", "file": "token", "optional": True}
    with pytest.raises(ValueError, match="at most"):
        from_json({"secrets": [one] * 1000, "missing": [], "config_map": "", "problem": ""})

    assert len(from_json({"secrets": [], "missing": [], "config_map": "", "problem": "p" * 9999}).problem) == 1024


def test_thousands_of_consumers_are_no_more_than_is_read() -> None:
    metadata = {"headrace.dev/subscriber": json.dumps({f"k{index}": "v" for index in range(20)}), "team": "a"}
    one = {"name": "KN_SUB_A", "config": {f"k{index}": 1 for index in range(25)} | {"metadata": metadata}, "state": {}}

    answer = json.dumps(lent.answer([one] * 5_000)).encode()

    assert len(lent.read_answer(answer, "consumer_infos")) == 5_000
