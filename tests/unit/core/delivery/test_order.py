"""Which message of a by-key consumer may go, and the fate of those that may not."""

from __future__ import annotations

import pytest

from headrace.core.delivery.order import Go, Order, Postpone, Twin, Unsettled, Wait


def order(most_here: int = 10, most_bytes: int = 1000, *, opened: bool = True) -> Order:
    return Order(most_here, most_bytes, open=opened)


# ── one lease that knows everything ─────────────────────────────────────────────────────────────────────────────────


def test_the_first_of_a_key_goes_and_the_next_waits_until_it_is_settled() -> None:
    line = order()
    assert line.arrived(1, "a", 1, 0.0) == Go()
    assert line.arrived(2, "a", 1, 0.0) == Wait()
    assert line.arrived(3, "a", 1, 0.0) == Wait()
    assert line.settled(1, 0.0) == ((2, Go()),)
    assert line.settled(2, 0.0) == ((3, Go()),)
    assert line.settled(3, 0.0) == ()
    assert line.known() == frozenset()


def test_keys_don_t_wait_for_one_another() -> None:
    line = order()
    assert [line.arrived(sequence, key, 1, 0.0) for sequence, key in ((1, "a"), (2, "b"), (3, "c"))] == [Go()] * 3


def test_what_has_no_key_waits_for_nobody_and_holds_nobody_up() -> None:
    line = order()
    assert [line.arrived(sequence, None, 1, 0.0) for sequence in (1, 2, 3)] == [Go()] * 3
    assert line.away(2, 3600.0, 0.0) == ()
    assert line.arrived(4, None, 1, 0.0) == Go()
    assert line.settled(4, 0.0) == ()


def test_a_retry_soon_keeps_those_behind_it_here() -> None:
    line = order()
    line.arrived(1, "a", 1, 0.0)
    line.arrived(2, "a", 1, 0.0)
    assert line.away(1, 0.2, 0.0) == ()
    assert line.arrived(1, "a", 1, 0.2) == Go()
    assert line.settled(1, 0.2) == ((2, Go()),)


def test_a_retry_much_later_sends_those_behind_it_away_until_just_after() -> None:
    line = order()
    for sequence in (1, 2, 3):
        line.arrived(sequence, "a", 1, 0.0)
    assert line.away(1, 60.0, 0.0) == ((2, Postpone(60.051)), (3, Postpone(60.052)))


def test_a_fresh_event_of_a_blocked_key_goes_away_as_well() -> None:
    line = order()
    line.arrived(1, "a", 1, 0.0)
    line.away(1, 60.0, 0.0)
    assert line.arrived(2, "a", 1, 1.0) == Postpone(60.051)
    assert line.arrived(3, "b", 1, 1.0) == Go()


def test_those_that_come_back_in_another_order_go_in_theirs() -> None:
    line = order()
    for sequence in (1, 2, 3):
        line.arrived(sequence, "a", 1, 0.0)
    line.away(1, 60.0, 0.0)
    assert line.arrived(3, "a", 1, 60.0) == Wait()
    assert line.arrived(2, "a", 1, 60.0) == Wait()
    assert line.arrived(1, "a", 1, 60.0) == Go()
    assert line.settled(1, 60.0) == ((2, Go()),)
    assert line.settled(2, 60.0) == ((3, Go()),)


def test_parking_frees_the_key_though_the_next_is_still_away() -> None:
    line = order()
    line.arrived(1, "a", 1, 0.0)
    line.arrived(2, "a", 1, 0.0)
    line.away(1, 60.0, 0.0)
    line.arrived(1, "a", 1, 60.0)
    assert line.settled(1, 60.0) == ()
    assert line.arrived(3, "a", 1, 60.0) == Wait()
    assert line.arrived(2, "a", 1, 60.06) == Go()


def test_what_comes_again_while_it_is_here_is_a_twin() -> None:
    line = order()
    line.arrived(1, "a", 1, 0.0)
    line.arrived(2, "a", 1, 0.0)
    assert line.arrived(1, "a", 1, 9.0) == Twin()
    assert line.arrived(2, "a", 1, 9.0) == Twin()
    assert line.settled(1, 9.0) == ((2, Go()),)


def test_only_so_many_wait_here() -> None:
    line = order(most_here=1)
    line.arrived(1, "a", 1, 0.0)
    assert line.arrived(2, "a", 1, 0.0) == Wait()
    assert line.arrived(3, "a", 1, 0.0) == Postpone(4.052)
    assert line.here == 1
    assert line.settled(1, 0.5) == ((2, Go()),)
    assert line.here == 0


def test_one_waits_here_however_large_it_is() -> None:
    line = order(most_bytes=0)
    line.arrived(1, "a", 90, 0.0)
    assert line.arrived(2, "a", 90, 0.0) == Wait()
    assert line.arrived(3, "a", 1, 0.0) == Postpone(4.052)


@pytest.mark.parametrize(
    ("waiting", "crowded"),
    [([], False), ([1], False), ([1, 1], True), ([74], False), ([75], True)],
)
def test_when_it_is_crowded(waiting: list[int], crowded: bool) -> None:
    line = order(most_here=2, most_bytes=100)
    line.arrived(1, "a", 1, 0.0)
    for sequence, size in enumerate(waiting, 2):
        line.arrived(sequence, "a", size, 0.0)
    assert line.crowded is crowded


def test_half_of_the_room_is_for_those_whose_turn_nobody_knows() -> None:
    line = order(most_here=20)
    assert line.ahead == 10
    line.arrived(1, "a", 1, 0.0)
    assert line.ahead == 10
    for sequence in range(2, 10):
        line.arrived(sequence, "a", 1, 0.0)
    assert (line.here, line.ahead) == (8, 2)
    line.arrived(10, "a", 1, 0.0)
    assert (line.here, line.ahead) == (9, 0)


def test_half_of_the_bytes_as_well_by_the_size_of_those_who_wait() -> None:
    line = order(most_here=1000, most_bytes=200)
    line.arrived(1, "a", 20, 0.0)
    line.arrived(2, "a", 20, 0.0)
    assert line.ahead == 4
    line.arrived(3, "a", 70, 0.0)
    assert line.ahead == 0


def test_however_little_room_there_is_one_may_be_pulled() -> None:
    assert order(most_here=1, most_bytes=0).ahead == 1


def test_of_those_that_are_due_the_first_of_each_key_are_worth_a_pull() -> None:
    line = order()
    for sequence, key in ((1, "a"), (2, "a"), (3, "b"), (4, None)):
        line.arrived(sequence, key, 1, 0.0)
    line.away(1, 6.0, 0.0)
    line.away(3, 1.0, 0.0)
    line.away(4, 2.0, 0.0)
    assert [line.returning(now) for now in (0.9, 1.0, 2.0, 5.9, 6.0, 7.0)] == [0, 1, 2, 2, 3, 3]
    line.arrived(3, "b", 1, 7.0)
    assert line.returning(7.0) == 2
    line.arrived(1, "a", 1, 7.0)
    assert line.returning(7.0) == 1
    line.settled(1, 7.0)
    assert line.returning(7.0) == 2


def test_one_that_is_put_off_again_is_due_again() -> None:
    line = order()
    line.arrived(1, "a", 1, 0.0)
    line.away(1, 1.0, 0.0)
    assert (line.next_due, line.returning(1.0), line.next_due) == (1.0, 1, None)
    line.arrived(1, "a", 1, 1.0)
    line.away(1, 3.0, 1.0)
    assert (line.next_due, line.returning(2.0), line.returning(3.0)) == (3.0, 0, 1)


def test_one_that_came_before_it_was_due_and_is_put_off_again_is_not_due_when_it_was_at_first() -> None:
    line = order()
    line.arrived(1, "a", 1, 0.0)
    line.away(1, 1.0, 0.0)
    line.arrived(1, "a", 1, 0.5)
    line.away(1, 3.0, 0.5)
    assert [line.returning(now) for now in (1.0, 2.9, 3.0)] == [0, 0, 1]


def test_only_so_many_bytes_wait_here() -> None:
    line = order(most_bytes=100)
    line.arrived(1, "a", 90, 0.0)
    assert line.arrived(2, "a", 90, 0.0) == Wait()
    assert line.arrived(3, "a", 11, 0.0) == Postpone(4.052)
    assert line.arrived(4, "a", 10, 0.0) == Wait()
    line.settled(1, 0.0)
    assert line.bytes_here == 10


# ── a lease that takes over ─────────────────────────────────────────────────────────────────────────────────────────


def test_before_everything_is_known_nothing_with_a_key_goes() -> None:
    line = order(opened=False)
    assert line.arrived(5, "a", 1, 0.0) == Wait()
    assert line.arrived(7, "b", 1, 0.0) == Wait()
    assert line.arrived(8, None, 1, 0.0) == Go()
    assert line.arrived(4, "a", 1, 0.0) == Wait()
    assert line.opened(0.0) == ((4, Go()), (7, Go()))
    assert line.settled(4, 0.0) == ((5, Go()),)


def test_a_record_of_an_earlier_lease_blocks_its_key() -> None:
    line = order(opened=False)
    line.expect(4, "a", 60.0)
    line.arrived(5, "a", 1, 0.0)
    line.arrived(6, "b", 1, 0.0)
    assert line.opened(0.0) == ((5, Postpone(60.051)), (6, Go()))


def test_a_record_of_what_is_here_already_changes_nothing() -> None:
    line = order(opened=False)
    line.arrived(4, "a", 1, 0.0)
    line.expect(4, "a", 60.0)
    assert line.opened(0.0) == ((4, Go()),)


@pytest.mark.parametrize(
    ("unsettled", "missing"),
    [
        pytest.param(2, 0, id="all are here or expected"),
        pytest.param(5, 3, id="three are missing"),
        pytest.param(1, 0, id="one was settled when the server counted"),
    ],
)
def test_everything_is_known_when_the_server_counts_no_more(unsettled: int, missing: int) -> None:
    line = order(opened=False)
    line.arrived(5, "a", 1, 0.0)
    line.expect(4, "b", 60.0)
    assert line.missing(Unsettled(unsettled, 9), line.known()) == missing


def test_what_the_server_has_forgotten_does_not_hide_one_that_is_missing() -> None:
    """It was killed, and knows no more that it has delivered the events after the third."""
    line = order(opened=False)
    line.arrived(3, "a", 1, 0.0)
    line.expect(4, "a", 60.0)
    line.expect(5, "a", 60.0)
    assert line.missing(Unsettled(2, 3), line.known()) == 1


def test_what_is_here_waits_until_a_server_that_has_forgotten_it_has_come_as_far_again() -> None:
    line = order(opened=False)
    line.arrived(4, "a", 1, 0.0)
    assert line.missing(Unsettled(0, 0), line.known()) == 1
    line.arrived(3, "a", 1, 0.0)
    assert line.missing(Unsettled(2, 4), line.known()) == 0


def test_what_came_after_the_question_does_not_hide_one_that_is_missing() -> None:
    line = order(opened=False)
    line.arrived(5, "a", 1, 0.0)
    asked = line.known()
    line.arrived(6, "a", 1, 0.0)
    assert line.missing(Unsettled(2, 9), asked) == 1


def test_what_was_settled_after_the_question_does_not_hide_one_that_is_missing() -> None:
    line = order(opened=False)
    line.arrived(5, None, 1, 0.0)
    asked = line.known()
    line.settled(5, 0.0)
    assert line.missing(Unsettled(1, 9), asked) == 1


@pytest.mark.parametrize(("before", "now"), [("a", "b"), ("a", None), (None, "a")])
def test_a_sequence_that_a_server_without_power_gives_again_is_another_event(
    before: str | None, now: str | None
) -> None:
    line = order(opened=False)
    line.expect(4, before, 60.0)
    line.opened(0.0)
    assert line.arrived(4, now, 1, 1.0) == Go()
    assert line.arrived(5, "a", 1, 1.0) == (Wait() if now == "a" else Go())
    line.settled(4, 2.0)
    assert line.known() == {5}
