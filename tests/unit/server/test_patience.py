"""One timer for all waits of a connection."""

from __future__ import annotations

from typing import cast

import pytest

from headrace.server.patience import Patience
from tests.support.http.slow_clock import SlowClock


class Watched:
    """A patience that notes when it was worn out."""

    def __init__(self) -> None:
        self.clock = SlowClock(now=0.5)
        self.expired: list[float] = []
        self.patience = Patience(cast("object", self.clock), lambda: self.expired.append(self.clock.now))

    def after(self, *seconds: float) -> list[float]:
        for one in seconds:
            self.clock.advance(one)
        return self.expired


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_wait_ends_when_its_time_is_over_and_once(watched: Watched) -> None:
    watched.patience.wait(20)
    assert watched.patience.waits
    assert watched.after(19.5) == []
    assert watched.after(1, 100) == [20.5]
    assert not watched.patience.waits


@pytest.mark.parametrize("then", ["stop", "close"])
def test_what_has_come_is_waited_for_no_more(watched: Watched, then: str) -> None:
    watched.patience.wait(20)
    getattr(watched.patience, then)()
    assert watched.after(100) == []


def test_a_longer_wait_in_place_of_a_shorter_one_lasts_as_long_as_it_should(watched: Watched) -> None:
    watched.patience.wait(20)
    watched.patience.stop()
    watched.patience.wait(95)
    assert watched.after(94) == []
    assert watched.after(2) == [95.5]


def test_a_shorter_wait_in_place_of_a_longer_one_ends_earlier(watched: Watched) -> None:
    watched.patience.wait(95)
    watched.patience.wait(20)
    assert watched.after(200) == [20.5]


def test_thousands_of_waits_set_few_timers(watched: Watched) -> None:
    for _ in range(10_000):
        watched.patience.wait(20)
        watched.patience.stop()
        watched.patience.wait(95)
        watched.clock.advance(0.01)
        watched.patience.stop()
    # Over 100 seconds: one for each that has gone off, and two where an idle time comes to be told.
    assert len(watched.clock.timers) <= 20
