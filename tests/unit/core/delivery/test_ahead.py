"""How many events a lease pulls ahead of its subscriber."""

from __future__ import annotations

import pytest

from headrace.core.delivery.ahead import Ahead, most_ahead
from headrace.core.delivery.window import Room, Window

LEASED_AT = 1000.0


@pytest.mark.parametrize(
    ("answered", "seconds", "events"),
    [
        pytest.param(0, 0.125, 0, id="a silent subscriber gets nothing ahead"),
        pytest.param(25, 0.125, 10, id="another one as many as it answers in 50 ms"),
        pytest.param(1, 0.125, 0, id="a slow one none"),
        pytest.param(10_000, 1.0, 300, id="and the quickest three times what may be in hand"),
        pytest.param(50, 0.02, 0, id="what it answers in a moment says nothing yet"),
    ],
)
def test_a_lease_pulls_as_far_ahead_as_its_subscriber_is_quick(answered: int, seconds: float, events: int) -> None:
    ahead = Ahead(300)
    ahead.look(0, LEASED_AT)
    ahead.look(answered, LEASED_AT + seconds)
    assert ahead.events == events


def test_a_subscriber_that_slows_down_gets_less_ahead_at_the_next_look() -> None:
    ahead = Ahead(300)
    ahead.look(0, LEASED_AT)
    ahead.look(1000, LEASED_AT + 0.125)
    assert ahead.events == 300
    ahead.look(1005, LEASED_AT + 0.25)
    assert ahead.events == 2


def test_the_first_look_of_a_lease_promises_nothing() -> None:
    ahead = Ahead(300)
    ahead.look(40, LEASED_AT)
    assert ahead.events == 0


def test_a_window_asks_for_what_is_ahead_too_and_counts_its_bytes() -> None:
    window = Window(slots=8, budget=1000, largest=300, ahead=8)
    assert window.room(8, 0, patient=True) == Room(8, 1000)
    assert window.room(13, 0, patient=True) is None
    assert window.room(13, 700, patient=False) == Room(3, 300)
    assert window.room(13, 701, patient=False) is None
    assert window.room(16, 0, patient=False) is None


@pytest.mark.parametrize(
    ("unsettled", "leases", "most"),
    [
        pytest.param(10_000, 4, 300, id="three times what may be in hand"),
        pytest.param(-1, 4, 300, id="also where any number may be unsettled"),
        pytest.param(1000, 4, 75, id="half of what a small window leaves to each lease"),
        pytest.param(120, 1, 10, id="so that it is never filled by what only waits"),
        pytest.param(400, 4, 0, id="nothing where the events in hand fill it"),
        pytest.param(1, 1, 0, id="nothing where there is an order"),
    ],
)
def test_what_is_ahead_does_not_fill_the_ack_window(unsettled: int, leases: int, most: int) -> None:
    assert most_ahead(100, unsettled, leases) == most
