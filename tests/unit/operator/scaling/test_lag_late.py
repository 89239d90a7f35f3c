"""Leases beyond their time: they wait for slow subscribers, and hold no fresh event up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace_operator.scaling import lag
from headrace_operator.scaling.lag import Counters, Outlook

NOW = 1_000.0
QUIET = Outlook(threshold=1000, max_scale=4)
BUSY = replace(QUIET, counters=Counters(pending=5))


@pytest.mark.parametrize(
    ("is_open", "late", "short"),
    [
        pytest.param(0, 0, 1, id="nobody pulls"),
        pytest.param(1, 0, 0, id="one pulls"),
        pytest.param(1, 1, 1, id="a late lease pulls no more, so another is opened beside it"),
        pytest.param(4, 4, 0, id="but never more than max_scale: each has its pod"),
        pytest.param(3, 2, 0, id="one of three still pulls"),
    ],
)
def test_how_many_leases_are_missing(is_open: int, late: int, short: int) -> None:
    assert lag.short(replace(BUSY, open=is_open, late=late), NOW) == short


@pytest.mark.parametrize(
    ("is_open", "late", "ending", "short"),
    [
        pytest.param(1, 1, 1, 1, id="its successor need not wait"),
        pytest.param(4, 4, 1, 1, id="its pod is going, so there is room for another"),
        pytest.param(4, 4, 0, 0, id="the pods of late ones stay"),
    ],
)
def test_a_lease_whose_process_ends_makes_room(is_open: int, late: int, ending: int, short: int) -> None:
    assert lag.short(replace(BUSY, open=is_open, late=late, ending=ending), NOW) == short


def test_an_ending_lease_calls_for_another_until_somebody_has_looked() -> None:
    going = lag.ending(replace(QUIET, open=1), NOW)
    assert (going.open, going.late, going.ending) == (1, 1, 1)
    assert lag.short(going, NOW) == 1
    assert lag.caught_up(going, ended=True) == replace(QUIET, open=1, hinted_at=NOW)


def test_a_late_lease_is_counted_until_it_ends() -> None:
    late = lag.overdue(replace(QUIET, open=1))
    assert (late.open, late.late) == (1, 1)
    assert lag.caught_up(late) == replace(QUIET, open=1)
