"""Numbers in the status: rounded, told seldom, and asked for by nobody while nothing waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel.counts import Backlog, calm, counted, look_again, rounded

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def status(lag: int = 0, *, ready: str = "True", words: str = "", **counts: int) -> dict[str, Any]:
    """A status with one consumer, and with what a condition of severity Info has to say."""
    numbers = Backlog(lag=lag, **counts).to_json()
    trouble = {"type": "NoEventsStuck", "status": "False", "severity": "Info", "message": words}
    return {
        "conditions": [{"type": "Ready", "status": ready}, *([trouble] if words else [])],
        "consumers": [{"uid": "aaaa-1", "durable": "KN_SUB_AAAA1", **numbers}],
    }


@pytest.mark.parametrize(
    ("number", "told"), [(0, 0), (1, 1), (99, 99), (100, 100), (101, 100), (1234, 1200), (999_999, 990_000)]
)
def test_two_digits_count(number: int, told: int) -> None:
    assert rounded(number) == told


def test_what_is_counted_of_a_consumer() -> None:
    info = {"name": "A", "num_pending": 7, "num_ack_pending": 3, "num_redelivered": 2}
    subjects = [f"shop.orders._knative_aside.parked.{name}.1" for name in ("A.4", "A.5", "B.4")]

    assert counted([info, {"name": "C"}], subjects) == {"A": Backlog(10, 7, 2, 2), "C": Backlog()}


def test_parked_events_that_were_not_counted_are_not_told() -> None:
    (found,) = counted([{"name": "A"}], None).values()

    assert found.to_json() == {"lag": 0, "pending": 0, "redelivered": 0}


TOLD = {**status(5), "countedAt": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize(
    ("after", "seconds", "written"),
    [
        pytest.param(status(5), 3600, TOLD, id="nothing has changed: not even its time"),
        pytest.param(status(9), 29, TOLD, id="numbers alone, too soon"),
        pytest.param(status(9), 30, {**status(9), "countedAt": "2026-01-31T12:00:30Z"}, id="numbers alone, in time"),
        pytest.param(
            status(9, ready="False"),
            1,
            {**status(9, ready="False"), "countedAt": "2026-01-31T12:00:01Z"},
            id="a condition takes the numbers along at once",
        ),
        pytest.param(
            status(9, words="3 are stuck"),
            1,
            {**status(9, words="3 are stuck"), "countedAt": "2026-01-31T12:00:01Z"},
            id="a new condition of severity Info is told at once",
        ),
        pytest.param(status(5), -5, TOLD, id="a clock that went back changes nothing"),
    ],
)
def test_when_a_status_is_written(after: dict[str, Any], seconds: float, written: dict[str, Any]) -> None:
    assert calm(TOLD, after, at(seconds)) == written


def test_the_words_of_a_condition_of_severity_info_are_numbers_too() -> None:
    before = calm(None, status(words="3 are stuck"), NOON)

    assert calm(before, status(words="4 are stuck"), at(29)) == before
    assert calm(before, status(words="4 are stuck"), at(30)) != before


@pytest.mark.parametrize("before", [None, [], "x", {}, {"consumers": 1, "conditions": {}}, {**TOLD, "countedAt": "no"}])
def test_what_was_never_told_is_told_at_once(before: object) -> None:
    assert calm(before, status(5), NOON) == TOLD


@pytest.mark.parametrize(
    ("after", "seconds", "wait"),
    [
        pytest.param(status(5), 1, 30, id="something waits and may move"),
        pytest.param(status(5), 100, 100, id="it has not moved for long"),
        pytest.param(status(5), 10_000, 300, id="at most so long"),
        pytest.param(status(9), 10, 20, id="what was held back is told when its time has come"),
        pytest.param(status(0), 10, 20, id="so is that nothing waits any more"),
    ],
)
def test_when_to_look_again(after: dict[str, Any], seconds: float, wait: float) -> None:
    assert look_again(after, calm(TOLD, after, at(seconds)), at(seconds)) == timedelta(seconds=wait)


@pytest.mark.parametrize("parked", [0, 5])
def test_an_idle_channel_is_not_looked_at_again(parked: int) -> None:
    idle = status(0, parked=parked)

    assert look_again(idle, calm(None, idle, NOON), NOON) is None
    assert look_again(idle, calm(calm(None, idle, NOON), idle, at(86_400)), at(86_400)) is None


def written_while(lags: list[int], every: float) -> int:
    """How often a status is written while the hook is called so often with these lags."""
    known: dict[str, Any] | None = None
    times = 0
    for number, lag in enumerate(lags):
        written = calm(known, status(lag), at(number * every))
        times += written != known
        known = written
    return times


@pytest.mark.parametrize(
    ("lags", "every", "times"),
    [
        pytest.param([0] * 600, 1, 1, id="ten idle minutes"),
        pytest.param(list(range(0, 60_000, 100)), 1, 20, id="ten busy minutes, each second another lag"),
        pytest.param([123_456 + number for number in range(600)], 1, 1, id="a large backlog that hardly moves"),
        pytest.param([0, 1] * 300, 1, 20, id="a trickle"),
    ],
)
def test_how_often_a_status_is_written(lags: list[int], every: float, times: int) -> None:
    assert written_while(lags, every) <= times


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=200), st.floats(0.1, 120))
def test_numbers_alone_are_written_every_thirty_seconds_at_most(lags: list[int], every: float) -> None:
    assert written_while(lags, every) <= 2 + len(lags) * every / 29


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.1, 60)), max_size=30))
def test_who_comes_again_when_asked_to_ends_with_the_truth(moves: list[tuple[int, float]]) -> None:
    known: dict[str, Any] = {}
    now, lag = NOON, 0
    for lag, seconds in moves:
        known, now = calm(known, status(lag), now), now + timedelta(seconds=seconds)
    known = calm(known, status(lag), now)
    for _ in range(2):
        wait = look_again(status(lag), known, now)
        now += wait or timedelta()
        known = calm(known, status(lag), now) if wait else known

    assert known["consumers"] == status(lag)["consumers"]
