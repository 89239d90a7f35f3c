"""A large JSON text that is read or written beside a loop does not keep the loop from going on."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import repeat

import pytest

from headrace.core.json_text import given, in_pieces

TEXT = json.dumps(list(repeat({"metadata": {"name": "orders", "labels": {"app": "shop"}}}, 30_000)))


def turns_during(work: Callable[[], object]) -> int:
    """How often another thread had its turn."""
    turns, over = 0, False

    def other() -> None:
        nonlocal turns
        while not over:
            turns += 1
            time.sleep(0)

    thread, before = threading.Thread(target=other), sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    # Hypothesis measures the collector by a callback in Python, which would let the other thread in.
    gc.disable()
    try:
        thread.start()
        began = turns
        work()
        return turns - began
    finally:
        over = True
        gc.enable()
        sys.setswitchinterval(before)
        thread.join()


def test_while_a_large_text_is_read_others_have_their_turns() -> None:
    # Several times, since a busy machine gives the other thread no turn, or the parser a long break.
    held = min(turns_during(lambda: json.loads(TEXT)) for _ in range(5))
    let_in = max(turns_during(lambda: json.loads(TEXT, object_hook=given)) for _ in range(5))

    assert let_in > 5 * max(held, 1)


def test_while_a_large_text_is_written_others_have_their_turns() -> None:
    value = {"children": {"Deployment.apps/v1": {str(index): one for index, one in enumerate(json.loads(TEXT))}}}
    held = min(turns_during(lambda: json.dumps(value)) for _ in range(5))
    let_in = max(turns_during(lambda: in_pieces(value, 3)) for _ in range(5))

    assert let_in > 5 * max(held, 1)


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 9])
@pytest.mark.parametrize(
    "value", [{}, [], {"a": []}, {"a": {"b": [1, "ä", None, {}]}, "": 1.5}, [[[]]], {"a": {1: {2: 3}}}, None]
)
def test_it_is_the_same_text(value: object, depth: int) -> None:
    assert in_pieces(value, depth) == json.dumps(value)


@pytest.mark.parametrize("value", [{"a": {"b": float("nan")}}, {"a": float("inf")}])
def test_nor_is_a_number_written_that_json_does_not_have(value: object) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        in_pieces(value, 3, partial(json.dumps, allow_nan=False))
