"""The table of strangers' attacks keeps what it says of the code before, whoever writes the rest anew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults import stranger_table
from tests.faults.stranger import ATTACKS

SEEDS = "## Seeds that failed first\n"


@dataclass
class Outcome:
    """One row."""

    function: str
    attack: str
    peak: float
    start: float = 40.0
    after: float = 45.0
    killed: bool = False
    alone: float = 1.0
    elsewhere: float = 1.5
    beside: float = 2.0
    failed: int = 0
    lost: int = 0


def test_cells_of_the_code_before_stay_when_the_table_is_written_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "faults.md"
    page.write_text(SEEDS)
    monkeypatch.setattr(stranger_table, "PAGE", page)
    attacks = list(ATTACKS)[:2]
    then, now = (
        [Outcome(function, attack, peak) for attack in attacks for function in stranger_table.FUNCTIONS]
        for peak in (250.0, 50.0)
    )
    stranger_table.write(now, then)
    first = stranger_table.kept(page.read_text())
    assert "| 40, 250, 45 | 40, 50, 45 | 1.0 → 2.0 | 1.0 → 2.0 | 1.5 |" in first
    stranger_table.write(now, ())
    assert stranger_table.kept(page.read_text()) == first
    assert page.read_text().endswith(SEEDS)


def test_the_table_counts_the_rows_that_hold_and_those_where_the_machine_is_slow_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "faults.md"
    page.write_text(SEEDS)
    monkeypatch.setattr(stranger_table, "PAGE", page)
    attack = next(iter(ATTACKS))
    rows = [
        Outcome("receive", attack, 50.0),
        Outcome("forward", attack, 50.0, elsewhere=4.0, beside=5.0),
        Outcome("reconcile", attack, 50.0, beside=5.0),
    ]
    stranger_table.write(rows, ())
    said = " ".join(page.read_text().split())
    assert "within 3 times of the p99 alone in 1 of 3 rows; in 1 of the others it is within 1.5 times" in said
