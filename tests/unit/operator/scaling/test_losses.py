"""Signs that events vanished while they waited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.delivery.lease import LeaseAnswer, Outcome
from headrace_operator.scaling import losses
from headrace_operator.scaling.lag import Counters, Outlook

WAITING = Outlook(1000, 4, Counters(ack_pending=5), dues=(100.0,))


@pytest.mark.parametrize(
    ("outcome", "left", "lost"),
    [
        pytest.param(None, 3, True, id="two are gone and nothing was done"),
        pytest.param(None, 5, False, id="all are still there"),
        pytest.param(Outcome.DELIVERED, 3, False, id="they may have been delivered"),
        pytest.param(Outcome.RETURNED, 3, True, id="what is given back is not gone"),
    ],
)
def test_after_a_lease(outcome: Outcome | None, left: int, lost: bool) -> None:
    answer = LeaseAnswer({outcome: 2} if outcome else {}, pending=0, ack_pending=left, next_due_seconds=None)
    assert losses.in_lease(WAITING, answer) is lost


@pytest.mark.parametrize(
    ("before", "left", "lost"),
    [
        pytest.param(WAITING, 3, True, id="two are gone"),
        pytest.param(WAITING, 6, False, id="there are more"),
        pytest.param(replace(WAITING, open=1), 3, False, id="a lease is open, and answers for it"),
        pytest.param(replace(WAITING, dues=()), 3, False, id="none waited: the server was slow to count acks"),
        pytest.param(replace(WAITING, dues=(), due_at=7.0), 3, True, id="one waits, as a lease has told"),
    ],
)
def test_between_leases(before: Outlook, left: int, lost: bool) -> None:
    assert losses.between_leases(before, Counters(ack_pending=left)) is lost
