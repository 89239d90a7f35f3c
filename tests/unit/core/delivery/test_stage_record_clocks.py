"""How far another process's clock is believed: within the wait that its record names."""

from __future__ import annotations

import pytest

from headrace.core.delivery.stage_record import StageRecord, ahead, from_json, skew, to_json

NOW = 1_000_000.0
MOST = 30.0


@pytest.mark.parametrize(
    ("record", "left", "differs"),
    [
        pytest.param(StageRecord(due=NOW + 5, wait=8.0), 5.0, 0.0, id="on its way"),
        pytest.param(StageRecord(due=NOW + 600, wait=0.5), 0.5, 599.5, id="by a clock that is ahead"),
        pytest.param(StageRecord(due=NOW - 600, wait=0.5), -600.0, 0.0, id="long past, or by a clock that is behind"),
        pytest.param(StageRecord(due=NOW + 600), MOST, 570.0, id="of an earlier version"),
        pytest.param(StageRecord(due=NOW + 20), 20.0, 0.0, id="of an earlier version, and possible"),
        pytest.param(StageRecord(), 0.0, 0.0, id="it has not failed yet"),
    ],
)
def test_a_due_time_is_believed_within_what_it_was_to_wait(record: StageRecord, left: float, differs: float) -> None:
    assert ahead(record, NOW, MOST) == left
    assert skew(record, NOW, MOST) == differs


def test_the_wait_is_kept_in_the_record() -> None:
    record = StageRecord(due=NOW, wait=0.2)
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize("wait", ["-1", '"x"', "1e400", "[]"])
def test_a_record_whose_wait_is_damaged_is_damaged(wait: str) -> None:
    assert from_json(to_json(StageRecord(due=NOW, wait=0.25)).replace(b"0.25", wait.encode())) is None
