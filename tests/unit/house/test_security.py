"""SECURITY.md says of each attack who stops it, and names the test that shows it: the test is there under that name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", TEXT, flags=re.MULTILINE)
(TABLES,) = [part for part in SECTION if part.startswith("Who tries what")]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLES.splitlines()
    if line.startswith("| ") and not line.startswith("| who ")
]
DEFINED = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_there_are_rows() -> None:
    assert len(ROWS) >= 25


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2])[:60])
def test_each_row_says_who_tries_what_who_stops_it_and_which_test_shows_it(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    named = re.findall(r"`(test_\w+)`", row[3])
    assert named
    assert [name for name in named if name not in DEFINED] == []
