"""Status conditions in Knative's form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.core.conditions import Condition, ready, stamp
from tests.support.functions.channels import channel

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
NOW = "2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("before", "since"),
    [
        pytest.param(None, NOW, id="there was no status"),
        pytest.param([], NOW, id="there was no condition"),
        pytest.param("damaged", NOW, id="the status was damaged"),
        pytest.param([{"type": "Ready", "status": "False", "lastTransitionTime": "x"}], NOW, id="it changed"),
        pytest.param([{"type": "Ready", "status": "True"}], NOW, id="it had no time"),
        pytest.param(
            [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "2026-01-01T00:00:00Z",
            id="it stays",
        ),
        pytest.param(
            [{"type": "Ready", "status": "True", "lastTransitionTime": "9999-01-01T00:00:00Z"}],
            NOW,
            id="its change has not been yet",
        ),
    ],
)
def test_the_time_of_a_condition_is_that_of_its_last_change(before: Any, since: str) -> None:
    parent = channel(status={"conditions": before})

    (condition,) = stamp([Condition("Ready", True)], parent, NOON)

    assert condition["lastTransitionTime"] == since


def test_the_sum_is_the_first_that_matters() -> None:
    told = Condition("A", False, "Told", "not so bad", informative=True)
    first, second = Condition("B", False, "First", "bad"), Condition("C", False, "Second", "worse")

    assert ready([told, Condition("D", True)]) == Condition("Ready", True)
    assert ready([told, first, second]) == Condition("Ready", False, "First", "bad")


def test_words_of_strangers_in_a_condition_are_nothing_that_a_terminal_obeys() -> None:
    hostile = Condition("StreamReady", False, "Refused", "the server says \x1b]0;x\x07\x9b2J\u202egnp\nand more é")

    (told,) = stamp([hostile], channel(), NOON)

    assert told["message"] == "the server says \\x1b]0;x\\x07\\x9b2J\\u202egnp\nand more é"
