"""Which events a consumer does not hold any more, by its numbers and by their records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.core.delivery.forgotten import Suspects, due_of, overdue, suspects

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def info(out: int, floor: int = 0, position: int = 9) -> dict[str, Any]:
    return {"num_ack_pending": out, "ack_floor": {"stream_seq": floor}, "delivered": {"stream_seq": position}}


def ago(seconds: float) -> float:
    return (NOW - timedelta(seconds=seconds)).timestamp()


@pytest.mark.parametrize(
    ("records", "known", "found"),
    [
        pytest.param((3, 7), info(0), Suspects((3, 7), 2), id="it holds nothing"),
        pytest.param((3, 7), info(2), Suspects((), 0), id="it holds as many as there are records"),
        pytest.param((3, 7), info(2, floor=5), Suspects((3,), 1), id="one is below its floor"),
        pytest.param((3, 7, 9), info(1), Suspects((3, 7, 9), 2), id="it can't hold all of them"),
        pytest.param((3, 7, 9), info(2, floor=5), Suspects((3,), 1), id="the one that is too many is known"),
        pytest.param((3, 7), info(0, position=5), Suspects((3,), 1), id="one is still to be delivered"),
        pytest.param((), info(0), Suspects((), 0), id="nothing waits"),
    ],
)
def test_which_records_may_be_of_events_that_are_not_held(
    records: tuple[int, ...], known: dict[str, Any], found: Suspects
) -> None:
    assert suspects(records, known) == found


def test_only_those_whose_retry_is_long_past_count_and_the_most_overdue_first() -> None:
    dues = {1: ago(70), 2: ago(600), 3: ago(50), 4: ago(-50), 5: None}
    assert overdue(dues, 9, NOW) == (5, 2, 1)
    assert overdue(dues, 2, NOW) == (5, 2)


def test_the_due_time_of_a_record() -> None:
    assert due_of('{"stage": "subscriber", "attempts": [1, 0, 0], "due": 12.5, "last": ""}') == 12.5
    assert due_of("{") is None
