"""What counts as absent in a manifest."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.manifest.part import is_hollow


def nested(depth: int, inmost: Any) -> Any:
    value = inmost
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("value", [{"a": ""}, {"a": None, "b": [], "c": {}, "d": [""]}, nested(3, "")])
def test_an_object_that_says_nothing_is_hollow(value: Any) -> None:
    assert is_hollow(value)


@pytest.mark.parametrize("value", [{}, "", [], {"a": "x"}, {"a": "", "b": 0}, nested(3, "x")])
def test_anything_else_is_not(value: Any) -> None:
    assert not is_hollow(value)


def test_nor_is_one_that_is_nested_deeper_than_anybody_means_it() -> None:
    assert not is_hollow(nested(100_000, ""))
