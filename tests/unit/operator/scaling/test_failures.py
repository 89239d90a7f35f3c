"""After failed leases: one tries for all, and the first that has delivered something opens the way for the rest."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headrace.core.delivery.lease import LeaseAnswer
from headrace_operator.scaling import failures, lag
from headrace_operator.scaling.lag import Counters, Outlook

NOW = 1_000.0
QUIET = Outlook(threshold=100, max_scale=4)
BUSY = Outlook(threshold=100, max_scale=4, counters=Counters(pending=1_900))


@pytest.mark.parametrize(
    ("outlook", "leases"),
    [
        pytest.param(replace(BUSY, failures=1), 1, id="one tries for all"),
        pytest.param(replace(BUSY, failures=1, open=1, trials=1), 0, id="no second one while it pulls"),
        pytest.param(replace(BUSY, failures=1, open=2), 1, id="beside those that have not broken"),
        pytest.param(replace(BUSY, failures=1, open=3, trials=1), 0, id="one beside them"),
        pytest.param(replace(BUSY, failures=1, open=4), 0, id="never more than max-scale"),
        pytest.param(replace(BUSY, failures=1, open=1, late=1), 1, id="the one that tried waits for slow subscribers"),
        pytest.param(replace(BUSY, failures=9, not_before=NOW + 1), 0, id="a pause is kept"),
        pytest.param(replace(BUSY, failures=1, counters=Counters()), 0, id="none where there is nothing"),
        pytest.param(replace(BUSY, failures=1, counters=Counters(9, paused=True)), 0, id="none while it is paused"),
        pytest.param(replace(BUSY, failures=1, counters=Counters(9, 5, 5)), 0, id="none while the window is full"),
        pytest.param(
            replace(BUSY, failures=1, counters=Counters(9, 5, 5), probe_at=NOW), 1, id="but for what is due again"
        ),
    ],
)
def test_how_many_leases_are_opened_after_a_failure(outlook: Outlook, leases: int) -> None:
    assert lag.short(outlook, NOW) == leases


def test_a_trial_that_has_had_something_settled_opens_the_way_for_all_at_once() -> None:
    trying = lag.opened(replace(BUSY, failures=7, not_before=NOW), NOW)
    assert (trying.trials, lag.short(trying, NOW)) == (1, 0)

    works = failures.works(trying, NOW)

    assert (works.failures, works.trials, lag.short(works, NOW)) == (0, 0, 3)


@pytest.mark.parametrize(
    ("ago", "due_soon", "leases"),
    [
        pytest.param(lag.ORPHANS_DUE - 0.1, 0, 0, id="it is not due yet"),
        pytest.param(lag.ORPHANS_DUE, 0, 3, id="all of it is due"),
        pytest.param(lag.ORPHANS_DUE, 250, 1, id="but for what has a time of its own"),
        pytest.param(lag.ORPHANS_DUE + 60, 0, 0, id="so long after that it is something else"),
    ],
)
def test_a_trial_that_works_opens_the_way_for_what_broken_leases_held(ago: float, due_soon: int, leases: int) -> None:
    held = Counters(pending=0, ack_pending=400)
    broken = replace(QUIET, counters=held, dues=(NOW + 9,) * due_soon, failures=3, broken_at=NOW - ago, probe_at=NOW)

    works = failures.works(lag.opened(broken, NOW), NOW)

    assert max(0, lag.short(works, NOW)) == leases


def test_a_trial_that_breaks_is_followed_by_the_next_after_a_longer_pause() -> None:
    outlook, now, pauses = BUSY, NOW, []
    for _ in range(10):
        outlook = failures.failed(failures.tried(lag.opened(outlook, now)), now, 0.5)
        pauses.append(round(outlook.not_before - now, 3))
        now = outlook.not_before
        assert lag.short(outlook, now) == 1

    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_what_works_does_not_wait_for_what_has_failed_beside_it() -> None:
    beside = replace(BUSY, failures=5, open=2, not_before=NOW + 3)

    after = lag.answered(beside, LeaseAnswer({"delivered": 9}, 1_900, 0, None), NOW)

    assert (after.failures, lag.short(after, NOW)) == (0, 3)


def test_a_trial_that_got_nothing_of_what_is_pending_is_followed_by_a_pause_and_then_by_usual_leases() -> None:
    trying = lag.opened(replace(BUSY, failures=1), NOW)

    after = lag.answered(failures.tried(trying), LeaseAnswer({}, 1_900, 0, None), NOW + 1, cut=True)

    assert (after.not_before, lag.short(after, NOW + 1), lag.short(after, NOW + 1.5)) == (NOW + 1.5, 0, 4)


@pytest.mark.parametrize(
    ("cut", "delivered", "leases"),
    [
        pytest.param(True, 50, 1, id="more of them may be due: its time was up"),
        pytest.param(True, 0, 0, id="none of them was"),
        pytest.param(False, 50, 0, id="a usual lease ends when no more are due"),
    ],
)
def test_what_broken_leases_held_is_fetched_to_its_end(cut: bool, delivered: int, leases: int) -> None:
    probing = lag.opened(Outlook(100, 4, counters=Counters(ack_pending=80), probe_at=NOW, failures=cut), NOW)

    answer = LeaseAnswer({"delivered": delivered}, 0, 80 - delivered, None)

    assert lag.short(lag.answered(probing, answer, NOW + 1, cut=cut), NOW + 1) == leases


def test_what_may_be_over_is_tried_again_soon() -> None:
    failing_for_long = replace(BUSY, failures=12, not_before=NOW + 25)

    assert failures.forgiven(failing_for_long, NOW, 0.5) == replace(BUSY, failures=1, not_before=NOW + 0.2)
    assert failures.forgiven(replace(BUSY, failures=1, not_before=NOW + 0.1), NOW, 0.5).not_before == NOW + 0.1
    assert failures.forgiven(BUSY, NOW, 0.5) == BUSY
    assert BUSY.not_before == -math.inf


@pytest.mark.parametrize(
    ("count", "chance", "seconds"),
    [
        pytest.param(1, 0.0, 0.2, id="never below the first"),
        pytest.param(1, 1.0, 0.24, id="jitter adds up to a fifth"),
        pytest.param(4, 0.5, 1.6, id="doubled each time"),
        pytest.param(4, 0.0, 1.28, id="jitter takes up to a fifth"),
        pytest.param(12, 0.5, 30.0, id="never above 30 s"),
        pytest.param(100_000, 1.0, 30.0, id="after any number of failures"),
    ],
)
def test_the_back_off_while_forward_fails(count: int, chance: float, seconds: float) -> None:
    assert failures.failure_pause(count, chance) == pytest.approx(seconds)


def test_a_lease_that_broke_is_owed_until_it_is_made_up_for() -> None:
    broken = failures.failed(lag.opened(replace(QUIET, hinted_at=NOW), NOW), NOW + 1, 0.5)

    assert (lag.wanted(broken, NOW + 1), lag.look_again_at(broken, NOW + 1)) == (0, NOW + 1.2)
    assert lag.wanted(broken, NOW + 1.2) == 1
    healed = lag.answered(lag.opened(broken, NOW + 1.2), LeaseAnswer({"delivered": 1}, 0, 0, None), NOW + 3)
    assert (healed.failures, lag.wanted(healed, NOW + 3)) == (0, 0)


def test_leases_that_break_together_are_one_failure() -> None:
    three = lag.opened(lag.opened(lag.opened(replace(QUIET, counters=Counters(pending=300)), NOW), NOW), NOW)

    for moment in (NOW + 1.0, NOW + 1.01, NOW + 1.02):
        three = failures.failed(three, moment, 0.5)

    assert (three.open, three.failures, three.not_before) == (0, 1, NOW + 1.2)
