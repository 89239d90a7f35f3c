"""What is sent to `reconcile`: the JSON of Metacontroller's hooks, or a fault of the object."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from headrace.core.errors import InvalidSpec, Unavailable
from headrace_operator.channels import hook_client


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
    assert json.loads(hook_client.written({"kind": "Ä"}, finalizing=True)) == {
        "controller": {},
        "parent": {"kind": "Ä"},
        "children": {},
        "related": {},
        "finalizing": True,
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
        hook_client.written({"metadata": value}, finalizing=False)


@pytest.mark.parametrize("text", ["<html>", "[]", '{"resyncAfterSeconds": "soon"}', "[" * 100_000])
def test_an_answer_that_is_not_reconciles_is_no_answer(text: str) -> None:
    with pytest.raises(Unavailable, match="but not as reconcile does"):
        hook_client.parsed(text, "http://127.0.0.1/sync")
