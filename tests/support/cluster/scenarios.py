"""The table of the tests that ran on a cluster: each as a sentence, with its result, figures, date and commit.

A run writes the rows of its own tests, and leaves all others.
"""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster.figures import markdown, rows_of, write

TABLE = "scenarios"
_HEAD = ("what holds", "", "figures", "seconds", "when, commit")
_ROOT = Path(__file__).resolve().parents[3]
_RESULTS = {"passed": "pass", "failed": "**FAIL**", "skipped": "skip"}


@dataclass
class _Row:
    result: str
    seconds: float


class Scenarios:
    """Of one run."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._figures: dict[str, str] = {}

    def tell(self, test: str, words: str) -> None:
        """The figures of a test, which are printed at once."""
        self._figures[test] = words
        print(words, flush=True)

    def add(self, report: pytest.TestReport) -> None:
        """What became of a test's preparation, of itself, or of what followed it."""
        row = self._rows.setdefault(report.nodeid, _Row("passed", 0.0))
        row.seconds += report.duration
        if report.outcome != "passed" and row.result != "failed":
            row.result = report.outcome

    def write(self, document: Path) -> None:
        """Into the document, beside the rows of what was not run this time."""
        rows = rows_of(TABLE, document)
        for test, row in self._rows.items():
            if test in self._figures or row.result != "passed":
                sentence = _sentence(test)
                rows[sentence] = (
                    sentence,
                    _RESULTS[row.result],
                    self._figures.get(test, ""),
                    round(row.seconds),
                    _stamp(),
                )
            else:
                # It failed before.
                rows.pop(_sentence(test), None)
        write(TABLE, markdown(_HEAD, [rows[key] for key in sorted(rows)]), document)


def _sentence(test: str) -> str:
    name = test.rpartition("::")[2]
    words = re.sub(r"\[(.*)\]", r" (\1)", name.removeprefix("test_")).replace("_", " ")
    return words[0].upper() + words[1:]


def _stamp() -> str:
    command = ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, {commit}"
