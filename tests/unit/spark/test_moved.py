"""Everything that docs/migration.md names for users of the Scala connector exists here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_jetstream.options import READ_OPTIONS
from pyspark_jetstream.schema import MESSAGE_COLUMNS
from pyspark_jetstream.writing.options import WRITE_OPTIONS

PAGE = (Path(__file__).parents[3] / "docs/migration.md").read_text()
TABLE = PAGE.partition("| the connector (V2) | here |\n|---|---|\n")[2].partition("\n\n")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in TABLE.splitlines()]


def test_the_table_is_found() -> None:
    assert len(ROWS) == 10
    assert all(len(row) == 2 for row in ROWS)


@pytest.mark.parametrize(("theirs", "ours"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_what_is_named_exists(theirs: str, ours: str) -> None:
    words = re.findall(r"`([^`]+)`", ours)
    known = WRITE_OPTIONS if theirs.startswith("sink") else MESSAGE_COLUMNS if "column" in ours else READ_OPTIONS

    assert words or ours.startswith("none: ")
    assert set(words) - set(known) == set()
