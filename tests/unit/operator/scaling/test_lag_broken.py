"""When to look for the events that a broken lease held: an ack wait after it broke, whatever came in between."""

from __future__ import annotations

import pytest

from headrace.core.delivery.lease import LeaseAnswer
from headrace_operator.scaling import failures, lag
from headrace_operator.scaling.lag import Counters, Outlook

BROKEN = 1_000.0
HELD = LeaseAnswer({"delivered": 50}, pending=0, ack_pending=20, next_due_seconds=None)


def opened_and_broken() -> Outlook:
    return failures.failed(lag.opened(Outlook(threshold=100, max_scale=4), BROKEN - 3), BROKEN, 0.5)


@pytest.mark.parametrize(
    ("ended", "probed"),
    [
        pytest.param(BROKEN + 2, BROKEN + 8.5, id="the successor's lease finds nothing and ends early"),
        pytest.param(BROKEN + 7.9, BROKEN + 8.5, id="it ends just before the events are due"),
        pytest.param(BROKEN + 9, BROKEN + 17, id="it was open when they were due, and these are others"),
    ],
)
def test_what_a_broken_lease_held_is_probed_for_when_it_is_due(ended: float, probed: float) -> None:
    outlook = lag.answered(lag.opened(opened_and_broken(), BROKEN + 0.2), HELD, ended)

    assert outlook.probe_at == probed


def test_a_lease_that_delivered_before_it_broke_is_none_of_a_row_of_failures() -> None:
    outlook = opened_and_broken()
    for at in (BROKEN + 100, BROKEN + 200, BROKEN + 300):
        outlook = failures.failed(lag.opened(outlook, at - 10), at, 0.5, delivered=True)

    assert (outlook.failures, outlook.broken_at, outlook.not_before) == (1, BROKEN + 300, BROKEN + 300.2)


def test_a_lease_that_could_not_be_opened_held_nothing() -> None:
    outlook = failures.failed(lag.opened(opened_and_broken(), BROKEN + 1), BROKEN + 1, 0.5)
    outlook = lag.answered(lag.opened(outlook, BROKEN + 2), HELD, BROKEN + 4)

    assert outlook.probe_at == BROKEN + 8.5


def test_what_another_scaler_has_left_un_acked_is_due_an_ack_wait_after_it_was_first_seen() -> None:
    first_seen = Outlook(threshold=100, max_scale=4, broken_at=BROKEN)
    outlook = lag.opened(lag.seen(first_seen, Counters(5, 20), None, BROKEN, BROKEN), BROKEN)
    swept = lag.seen(outlook, Counters(0, 20), None, BROKEN + 5, BROKEN + 5)

    assert lag.answered(swept, HELD, BROKEN + 7.9).probe_at == BROKEN + 8.5


@pytest.mark.parametrize(
    ("held", "leases"),
    [
        pytest.param(400, 4, id="as many leases as it is worth"),
        pytest.param(20, 1, id="one for a few"),
        pytest.param(4_000, 4, id="as many as there may be"),
    ],
)
def test_what_broken_leases_held_is_worth_leases_when_it_is_due(held: int, leases: int) -> None:
    swept = lag.seen(opened_and_broken(), Counters(0, held), None, BROKEN + 1, BROKEN + 1)
    well = lag.answered(lag.opened(swept, BROKEN + 1), LeaseAnswer({"delivered": 1}, 0, held, None), BROKEN + 2)

    assert (lag.short(well, BROKEN + 8), lag.short(well, BROKEN + 8.5)) == (0, leases)
