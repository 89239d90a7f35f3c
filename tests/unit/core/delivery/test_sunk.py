"""The count of events that went to a dead letter sink, as it is stored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headrace.core.delivery import delivery, sunk
from headrace.core.delivery.stage_record import Attempts, Stage, StageFailure, StageRecord
from headrace.core.delivery.sunk import Sunk

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 13, 0, tzinfo=UTC)


def test_a_count_grows_and_keeps_the_last_answer() -> None:
    first = sunk.added(b"", 2, "subscriber gave status 400 on attempt 1", NOON, "http://dead/")
    assert sunk.from_json(first) == Sunk(2, "subscriber gave status 400 on attempt 1", NOON, "http://dead/")

    second = sunk.added(first, 1, "subscriber gave status 403 on attempt 1", LATER, "http://other/")
    assert sunk.from_json(second) == Sunk(3, "subscriber gave status 403 on attempt 1", LATER, "http://other/")


@pytest.mark.parametrize(
    "damaged",
    [b"", b"7", b"[]", b"{", b'{"events":-1,"last":"","at":0,"sink":""}', b'{"events":1,"last":"","at":"x","sink":""}'],
)
def test_a_damaged_count_begins_anew(damaged: bytes) -> None:
    assert sunk.from_json(damaged) is None
    assert sunk.from_json(sunk.added(damaged, 1, "x", NOON, "http://dead/")) == Sunk(1, "x", NOON, "http://dead/")


def test_the_cause_is_what_was_answered_before_the_sink() -> None:
    failed = StageRecord(
        Stage.DEAD_LETTER, failure=StageFailure("http://billing/", 400), last="subscriber gave status 400 on attempt 1"
    )
    assert delivery.cause(failed) == "subscriber gave status 400 on attempt 1"

    again = StageRecord(
        Stage.DEAD_LETTER,
        Attempts(1, 0, 1),
        failure=StageFailure("http://billing/", 400),
        last="dead letter sink gave status 503 on attempt 1",
    )
    assert delivery.cause(again) == "http://billing/ gave status 400"
