"""How many leases a consumer gets, told as a story per table: what is known, what happens, what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.delivery.lease import LeaseAnswer
from headrace_operator.scaling import lag
from headrace_operator.scaling.lag import Counters, Outlook

NOW = 1_000.0
QUIET = Outlook(threshold=100, max_scale=4)


def pending(events: int, **more: object) -> Outlook:
    return replace(QUIET, counters=Counters(pending=events, **more))  # type: ignore[arg-type]  # fields, by name


def answer(
    *, delivered: int = 0, retried: int = 0, pending: int = 0, ack_pending: int = 0, due: float | None = None
) -> LeaseAnswer:
    return LeaseAnswer({"delivered": delivered, "retried": retried}, pending, ack_pending, due)


@pytest.mark.parametrize(
    ("outlook", "leases"),
    [
        pytest.param(QUIET, 0, id="no lag, no lease"),
        pytest.param(pending(1), 1, id="one event is worth a lease"),
        pytest.param(pending(100), 1, id="up to the threshold one lease"),
        pytest.param(pending(101), 2, id="one more beyond it"),
        pytest.param(pending(1_000_000), 4, id="never more than max-scale"),
        pytest.param(pending(500, paused=True), 0, id="a paused consumer gets none"),
        pytest.param(pending(500, ack_pending=10, max_ack_pending=10), 0, id="a full ack window gets none"),
        pytest.param(pending(500, ack_pending=9, max_ack_pending=10), 4, id="one free place in it is enough"),
        pytest.param(pending(500, ack_pending=9, max_ack_pending=-1), 4, id="an unlimited window is never full"),
        pytest.param(pending(0, ack_pending=50), 0, id="delayed retries are no lag while they wait"),
        pytest.param(replace(QUIET, hinted_at=NOW), 1, id="a hint is worth a lease before anything is counted"),
        pytest.param(replace(pending(0, paused=True), hinted_at=NOW), 0, id="a hint does not wake a paused consumer"),
        pytest.param(
            replace(pending(0, ack_pending=10, max_ack_pending=10), hinted_at=NOW),
            0,
            id="nor one whose window is full",
        ),
        pytest.param(replace(QUIET, due_at=NOW), 1, id="a retry that is due is lag"),
        pytest.param(replace(QUIET, due_at=NOW + 1), 0, id="one that is due later is not"),
        pytest.param(
            replace(pending(0, ack_pending=10, max_ack_pending=10), due_at=NOW),
            1,
            id="a due retry comes through a full window",
        ),
        pytest.param(
            replace(QUIET, dues=tuple(NOW - i for i in range(150, 0, -1))), 2, id="stage records count one by one"
        ),
        pytest.param(replace(QUIET, probe_at=NOW), 1, id="a probe is one lease"),
        pytest.param(replace(pending(500), not_before=NOW + 1), 0, id="a pause is kept"),
    ],
)
def test_leases_follow_lag(outlook: Outlook, leases: int) -> None:
    assert lag.wanted(outlook, NOW) == leases


@pytest.mark.parametrize(
    ("outlook", "moment"),
    [
        pytest.param(QUIET, None, id="nothing is to come"),
        pytest.param(replace(QUIET, due_at=NOW + 5, dues=(NOW + 3, NOW + 9)), NOW + 3, id="the earliest of all"),
        pytest.param(replace(QUIET, due_at=NOW - 5, probe_at=NOW + 8), NOW + 8, id="what has passed is no moment"),
        pytest.param(replace(QUIET, dues=(NOW - 1, NOW + 2)), NOW + 2, id="the first record that is ahead"),
        pytest.param(replace(pending(5), not_before=NOW + 0.2), NOW + 0.2, id="the end of a pause"),
    ],
)
def test_the_clock_is_watched_for_the_next_moment(outlook: Outlook, moment: float | None) -> None:
    assert lag.look_again_at(outlook, NOW) == moment


def test_an_opened_lease_takes_over_whatever_called_for_it() -> None:
    before = replace(QUIET, hinted_at=NOW, due_at=NOW, dues=(NOW - 1, NOW + 7), probe_at=NOW, due_again=5)

    after = lag.opened(before, NOW)

    assert after == replace(QUIET, open=1, dues=(NOW + 7,), probes=1)


def test_a_lease_that_left_nothing_is_followed_by_none() -> None:
    after = lag.answered(lag.opened(pending(5), NOW), answer(delivered=5), NOW + 2)

    assert (after.open, lag.wanted(after, NOW + 2), lag.look_again_at(after, NOW + 2)) == (0, 0, None)


def test_a_slot_goes_on_at_once_while_the_answer_calls_for_it() -> None:
    after = lag.answered(lag.opened(pending(500), NOW), answer(delivered=200, pending=300), NOW + 20)

    assert lag.wanted(after, NOW + 20) == 3


def test_the_answer_tells_when_to_come_back() -> None:
    after = lag.answered(lag.opened(pending(1), NOW), answer(retried=1, ack_pending=1, due=5.0), NOW + 2)

    assert lag.wanted(after, NOW + 6.9) == 0
    assert lag.look_again_at(after, NOW + 2) == NOW + 7
    assert lag.wanted(after, NOW + 7) == 1


def test_of_the_due_times_of_several_leases_the_earliest_counts() -> None:
    both = lag.opened(lag.opened(pending(150), NOW), NOW)

    first = lag.answered(both, answer(retried=1, ack_pending=2, due=5.0), NOW + 1)
    second = lag.answered(first, answer(retried=1, ack_pending=2, due=60.0), NOW + 2)

    assert second.due_at == NOW + 6


def test_a_due_time_is_void_once_nothing_is_un_acked() -> None:
    told = lag.answered(lag.opened(pending(1), NOW), answer(retried=1, delivered=1, due=0.0), NOW + 3)

    assert (told.due_at, lag.wanted(told, NOW + 3)) == (None, 0)


def test_each_full_lease_of_due_retries_calls_for_one_more() -> None:
    one = lag.opened(pending(0, ack_pending=900), NOW)
    after_one = lag.answered(one, answer(retried=400, ack_pending=900, due=0.0), NOW + 20)
    two = lag.opened(lag.opened(after_one, NOW + 20), NOW + 20)
    after_two = lag.answered(two, answer(retried=400, ack_pending=900, due=0.0), NOW + 40)

    assert (lag.wanted(after_one, NOW + 20), lag.wanted(after_two, NOW + 40)) == (2, 3)


@pytest.mark.parametrize(
    ("hint", "pending_then", "looks_closer", "leases"),
    [
        pytest.param(NOW + 1.0, 0, False, 0, id="a hint that the lease has served is over"),
        pytest.param(NOW + 2.5, 0, True, 1, id="one of its last second may not have been served"),
        pytest.param(NOW + 2.5, 1, True, 1, id="what it announces is no sign of a stuck consumer"),
    ],
)
def test_a_hint_while_a_lease_is_open(hint: float, pending_then: int, looks_closer: bool, leases: int) -> None:
    open_lease = lag.hinted(lag.opened(pending(1), NOW), hint)

    assert lag.hint_is_late(open_lease, NOW + 3) is looks_closer
    assert lag.wanted(lag.answered(open_lease, answer(pending=pending_then), NOW + 3), NOW + 3) == leases


def test_a_lease_that_got_nothing_of_what_is_pending_is_followed_by_growing_pauses() -> None:
    outlook, now, pauses = pending(5), NOW, []
    for _ in range(9):
        outlook = lag.answered(lag.opened(outlook, now), answer(pending=5), now + 2)
        now = outlook.not_before
        pauses.append(round(now - outlook.known_at, 3))

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    moved = lag.answered(lag.opened(outlook, now), answer(delivered=1, pending=4), now + 2)
    assert lag.wanted(moved, now + 2) == 1


def test_a_promised_retry_that_does_not_come_is_followed_by_pauses_too() -> None:
    outlook = replace(pending(0, ack_pending=3), due_at=NOW + 1)

    after = lag.answered(lag.opened(outlook, NOW), answer(ack_pending=3, due=0.0), NOW + 2)

    assert after.not_before == NOW + 2.5


@pytest.mark.parametrize(
    ("asked_at", "counted", "leases"),
    [
        pytest.param(NOW + 1, Counters(pending=250), 3, id="news of the sweep count"),
        pytest.param(NOW - 1, Counters(pending=250), 0, id="the answer of a lease that came since knows better"),
    ],
)
def test_a_sweep_and_an_answer(asked_at: float, counted: Counters, leases: int) -> None:
    answered = lag.answered(lag.opened(pending(1), NOW - 2), answer(delivered=1), NOW)

    assert lag.wanted(lag.seen(answered, counted, None, asked_at, NOW + 2), NOW + 2) == leases


@pytest.mark.parametrize(
    ("hinted_at", "leases"),
    [
        pytest.param(NOW - 1, 0, id="an older hint has been counted"),
        pytest.param(NOW + 1, 1, id="a hint since then has not"),
    ],
)
def test_a_sweep_and_a_hint(hinted_at: float, leases: int) -> None:
    hinted = lag.hinted(QUIET, hinted_at)

    assert lag.wanted(lag.seen(hinted, Counters(), None, NOW, NOW + 2), NOW + 2) == leases


@pytest.mark.parametrize(
    ("counted", "more", "probe_at"),
    [
        pytest.param(Counters(), {}, None, id="nothing is un-acked"),
        pytest.param(Counters(ack_pending=2), {}, NOW + 8, id="un-acked, and nobody knows of it"),
        pytest.param(Counters(ack_pending=2, waiting=1), {}, None, id="somebody pulls"),
        pytest.param(Counters(ack_pending=2), {"open": 1}, None, id="a lease of ours is open"),
        pytest.param(Counters(ack_pending=2, paused=True), {}, None, id="paused"),
        pytest.param(Counters(ack_pending=1), {"due_at": NOW + 3}, None, id="it is known when it is due"),
        pytest.param(Counters(ack_pending=2), {"dues": (NOW + 3,)}, NOW + 8, id="of one of two it is known"),
        pytest.param(Counters(ack_pending=2), {"probes": 1}, NOW + 16, id="the second time later"),
        pytest.param(Counters(ack_pending=2), {"probes": 5}, NOW + 30, id="never later than 30 s"),
        pytest.param(Counters(ack_pending=2), {"probe_at": NOW + 1}, NOW + 1, id="what is planned stays"),
    ],
)
def test_un_acked_events_of_which_nobody_says_when_they_are_due_are_probed_for(
    counted: Counters, more: dict[str, object], probe_at: float | None
) -> None:
    before = replace(QUIET, **more)  # type: ignore[arg-type]  # fields, by name

    assert lag.seen(before, counted, None, NOW, NOW).probe_at == probe_at


def test_stage_records_are_kept_until_a_lease_takes_them_over() -> None:
    known = Counters(ack_pending=3)
    once = lag.seen(QUIET, known, (NOW - 5, NOW + 9), NOW, NOW)

    again = lag.seen(once, known, (NOW + 9,), NOW + 1, NOW + 1)

    assert again.dues == (NOW - 5, NOW + 9)
    assert lag.wanted(again, NOW + 1) == 1
    assert lag.opened(again, NOW + 1).dues == (NOW + 9,)


@pytest.mark.parametrize(
    ("known_at", "leases"),
    [
        pytest.param(NOW - 2, 3, id="it is news"),
        pytest.param(NOW - 1.9, 0, id="an answer or a sweep may be younger than the message that told it"),
    ],
)
def test_what_a_lease_tells_of_what_waits_is_worth_leases(known_at: float, leases: int) -> None:
    busy = replace(QUIET, open=1, known_at=known_at)

    assert max(0, lag.short(lag.note_pending(busy, 4 * QUIET.threshold, NOW), NOW)) == leases


@pytest.mark.parametrize(
    ("outlook", "word"),
    [
        pytest.param(replace(QUIET, hinted_at=NOW), "hint", id="hint"),
        pytest.param(pending(3), "pending", id="pending"),
        pytest.param(replace(QUIET, due_at=NOW), "due", id="due"),
        pytest.param(replace(pending(3, ack_pending=9, max_ack_pending=9), probe_at=NOW), "probe", id="probe"),
    ],
)
def test_the_log_says_why(outlook: Outlook, word: str) -> None:
    assert lag.reason(outlook, NOW) == word


def test_counters_are_read_from_what_the_server_says() -> None:
    said = {
        "num_pending": 7,
        "num_ack_pending": 3,
        "num_waiting": 1,
        "paused": True,
        "config": {"max_ack_pending": 10_000},
    }

    assert lag.counters(said) == Counters(7, 3, 10_000, 1, paused=True)
    assert lag.counters({"num_pending": 7, "config": {}}) == Counters(pending=7)
