"""Refusals for channels that do not exist, beyond a hundred a second, are given late."""

from __future__ import annotations

import pytest

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.receive.pace import LONGEST_SECONDS, PER_SECOND, RefusalPace

MISSING = Refused("no such channel", status=404)


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_the_first_refusal_is_given_at_once_and_the_next_ones_at_the_pace() -> None:
    pace = RefusalPace(Clock())
    assert [round(pace.delay(MISSING), 3) for _ in range(4)] == [0.0, 0.01, 0.02, 0.03]


def test_no_refusal_is_put_off_for_longer_than_a_second() -> None:
    pace = RefusalPace(Clock())
    delays = [pace.delay(MISSING) for _ in range(10 * PER_SECOND)]
    assert max(delays) == LONGEST_SECONDS


def test_after_a_quiet_second_a_refusal_is_given_at_once() -> None:
    clock = Clock()
    pace = RefusalPace(clock)
    for _ in range(10 * PER_SECOND):
        pace.delay(MISSING)
    clock.now += LONGEST_SECONDS
    assert pace.delay(MISSING) == 0.0


@pytest.mark.parametrize(
    "error", [Refused("full", status=507), Refused("too large", status=413), Unavailable("no answer")]
)
def test_other_refusals_have_no_pace(error: HeadraceError) -> None:
    pace = RefusalPace(Clock())
    assert [pace.delay(error) for _ in range(3 * PER_SECOND)] == [0.0] * 3 * PER_SECOND
