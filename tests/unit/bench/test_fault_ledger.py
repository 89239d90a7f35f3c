"""The fault bench's account: it sees what is lost, what came twice, and what should not be there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.ledger import Held, Row, Sent, Strike, allow, settle
from tests.faults.sink import Arrival

NOTHING = Held(subscriber=[], replies=None, dead=[], parked=[], stored=0, left=0)


def arrived(*ids: str, took: bool = True, at: float = 10.0) -> list[Arrival]:
    return [Arrival("/", {}, at, id, took, answered_at=at) for id in ids]


def row_of(held: Held, *strikes: Strike, accepted: str = "a b") -> Row:
    row = Row("cell", 1)
    settle(row, Sent(sent=set(accepted.split()), accepted=set(accepted.split())), held)
    allow(row, held, list(strikes))
    return row


@pytest.mark.parametrize(
    ("held", "lost"),
    [
        pytest.param(replace(NOTHING, subscriber=arrived("a", "b")), 0, id="both were delivered"),
        pytest.param(replace(NOTHING, subscriber=arrived("a")), 1, id="one is nowhere"),
        pytest.param(replace(NOTHING, subscriber=arrived("a"), stored=1), 1, id="in the stream is not delivered"),
        pytest.param(replace(NOTHING, subscriber=arrived("a", "b", took=False)), 2, id="refused is not delivered"),
        pytest.param(replace(NOTHING, dead=arrived("a"), parked=["b"]), 0, id="dead-lettered and parked"),
        pytest.param(
            replace(NOTHING, subscriber=arrived("a", "b"), replies=arrived("r-a")), 1, id="a reply that never came"
        ),
    ],
)
def test_an_accepted_event_that_nobody_has_is_lost(held: Held, lost: int) -> None:
    row = row_of(held)

    assert row.lost == lost
    assert bool(row.faults()) == bool(lost)


def test_what_the_server_says_that_it_discarded_is_lost_and_no_fault() -> None:
    row = row_of(replace(NOTHING, subscriber=arrived("a")))
    row.discarded = 1

    assert row.faults() == []


@pytest.mark.parametrize(
    ("strikes", "kept"),
    [
        pytest.param([], False, id="nothing has died"),
        pytest.param([Strike(10.1, 10.1, 20)], True, id="it was in hands when something died"),
        pytest.param([Strike(10.1, 10.1, 0)], False, id="which can have held nothing"),
        pytest.param([Strike(50.0, 50.0, 20)], False, id="it was settled long before"),
    ],
)
def test_twice_may_come_what_was_in_hands_and_nothing_else(strikes: list[Strike], kept: bool) -> None:
    held = replace(NOTHING, subscriber=[*arrived("a", "b"), *arrived("a", at=20.0)])

    assert (row_of(held, *strikes).faults() == []) == kept


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(replace(NOTHING, subscriber=arrived("a", "b", "c")), id="nobody has sent it"),
        pytest.param(replace(NOTHING, subscriber=arrived("a", "b"), left=1), id="something is not settled"),
        pytest.param(replace(NOTHING, subscriber=arrived("a", "b"), parked=["a"]), id="two fates"),
    ],
)
def test_what_else_is_a_fault(held: Held) -> None:
    assert row_of(held).faults() != []


@pytest.mark.parametrize("fate", ["parked", "dead"])
def test_events_may_use_up_their_attempts_only_where_their_subscriber_does_not_take_them(fate: str) -> None:
    fates = {"parked": ["b"], "dead": arrived("b")}
    row = row_of(replace(NOTHING, subscriber=arrived("a"), **{fate: fates[fate]}))
    assert row.faults() == []
    row.takes_all = True
    assert row.faults() != []
