"""What one `reconcile` asks of another: a call means the same on both sides, and so does what came of it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest

from headrace.core import lent
from headrace.core.action import Action, Done, Rejected
from headrace.core.errors import HeadraceError, InvalidSpec, NotLetIn, Refused, Unavailable
from headrace.core.named import Named, from_json
from headrace.core.secret_files import SecretFile


def some(kind: type[Any]) -> Any:
    values = {"config": {"name": "S", "metadata": {"a": "b"}}}
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
    assert lent.read_outcome(lent.read_answer(json.dumps(lent.answer(outcome)).encode())) == outcome


@pytest.mark.parametrize("result", [None, 0, {"config": {}}, []])
def test_every_result_arrives_nothing_included(result: Any) -> None:
    assert lent.read_answer(json.dumps(lent.answer(result)).encode()) == result


@pytest.mark.parametrize(
    "error", [NotLetIn("who are you"), Unavailable("away"), Refused("not allowed", status=403)], ids=repr
)
def test_every_failure_is_the_same_on_the_other_side(error: Unavailable | Refused) -> None:
    with pytest.raises(HeadraceError) as raised:
        lent.read_answer(json.dumps(lent.failure(error)).encode())

    assert (type(raised.value), str(raised.value)) == (type(error), str(error))
    assert getattr(raised.value, "status", None) == getattr(error, "status", None)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"failure": "Refused"}', b"[" * 100_000])
def test_what_is_no_answer_is_somebody_elses(body: bytes) -> None:
    with pytest.raises(Unavailable, match="no answer of reconcile"):
        lent.read_answer(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"call": "close", "arguments": []}',
        b'{"call": ["stream"], "arguments": []}',
        b'{"call": "carry_out", "arguments": [{"action": "DeleteStream", "subject": "x"}]}',
    ],
)
def test_what_is_no_call_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidSpec) as refused:
        lent.read_call(body)

    assert refused.value.field == "body"


def test_names_of_secrets_arrive_as_they_were_told() -> None:
    told = Named((SecretFile("a", "k", "token"),), (SecretFile("b", "k", "ca.crt", optional=True),), "config", "broken")

    assert from_json(json.loads(json.dumps(told.to_json()))) == told
