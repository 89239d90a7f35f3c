"""How many messages a lease asks for."""

from __future__ import annotations

import pytest

from headrace.core.delivery.window import Room, Window

WINDOW = Window(slots=8, budget=1000, largest=300)


@pytest.mark.parametrize(
    ("in_flight", "in_flight_bytes", "patient", "room"),
    [
        pytest.param(0, 0, True, Room(8, 1000), id="an empty window asks for all of it"),
        pytest.param(7, 0, True, None, id="one free slot is not worth a pull yet"),
        pytest.param(7, 0, False, Room(1, 1000), id="but hanging events must not hold fresh ones up"),
        pytest.param(6, 0, True, Room(2, 1000), id="a quarter of the slots is"),
        pytest.param(8, 0, False, None, id="a full window asks for nothing"),
        pytest.param(2, 700, False, Room(6, 300), id="bytes bound it, too"),
        pytest.param(2, 701, False, None, id="with less room than the largest message it waits"),
    ],
)
def test_room(in_flight: int, in_flight_bytes: int, patient: bool, room: Room | None) -> None:
    assert WINDOW.room(in_flight, in_flight_bytes, patient=patient) == room


def test_alone_in_the_window_even_the_largest_message_may_come() -> None:
    assert Window(slots=8, budget=100, largest=300).room(0, 0, patient=True) == Room(1, 300)
