"""A finding is sure when a second look finds the same, a while later."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.core.delivery.second_look import Mark, read_mark

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def ago(seconds: float) -> float:
    return NOW.timestamp() - seconds


def test_a_mark_proves_the_same_finding_after_a_while() -> None:
    mark = Mark(of=ago(70), at=ago(20))
    assert read_mark(mark.to_json()) == mark
    assert mark.proves(ago(70), NOW)
    assert not mark.proves(ago(69), NOW), "it is another one"
    assert not Mark(ago(70), at=ago(19)).proves(ago(70), NOW)
    assert not Mark(ago(70), at=ago(-1)).holds(ago(70), NOW), "another clock is ahead"


@pytest.mark.parametrize("damaged", [None, "", "[]", '{"of": 1}', '{"of": "x", "at": 1}'])
def test_a_damaged_mark_is_none(damaged: str | None) -> None:
    assert read_mark(damaged) is None
