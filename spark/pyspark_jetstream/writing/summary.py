"""The fate of the rows of all tasks: for the driver's log, its summary file and the commit marker. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from headrace.core.plural import counted
from pyspark_jetstream.writing.task import CONTENT_MODULUS, MOST_SHOWN, PartitionReport, RowsOf


def content(parts: Iterable[PartitionReport]) -> str:
    """The sum of all tasks' row hashes as a marker holds it, independent of the rows' tasks and order."""
    return f"{sum(one.content for one in parts) % CONTENT_MODULUS:016x}"


@dataclass(frozen=True, slots=True)
class Summary:
    """The fate of the rows of all tasks: the sums of `PartitionReport`, and the first faults."""

    tasks: int
    rows: int
    stored: int
    duplicates: int
    known: int
    skipped: int
    is_passed: bool
    faults: list[str]

    @classmethod
    def of(cls, parts: Iterable[PartitionReport]) -> Summary:
        found = list(parts)
        return cls(
            tasks=len(found),
            rows=sum(one.rows for one in found),
            stored=sum(one.stored for one in found),
            duplicates=sum(one.duplicates for one in found),
            known=sum(one.known for one in found),
            skipped=sum(one.skipped for one in found),
            is_passed=bool(found) and all(one.is_passed for one in found),
            faults=list(chain.from_iterable(one.faults for one in found))[:MOST_SHOWN],
        )

    def line(self) -> str:
        """One line for the log of the driver."""
        words = (
            f"{counted(self.rows, 'row')} in {counted(self.tasks, 'task')}: {self.stored} stored, "
            f"{self.duplicates} there already, "
            f"{self.known} not sent again, {self.skipped} faulty"
        )
        return f"{words}; {'; '.join(self.faults)}" if self.faults else words

    def record(self, place: RowsOf, stream: str) -> dict[str, Any]:
        """The line for `summaryFile`."""
        return {
            "run": place.run,
            "batch": place.epoch,
            "stream": stream,
            "rows": self.rows,
            "stored": self.stored,
            "alreadyThere": self.duplicates,
            "notSentAgain": self.known,
            "faulty": self.skipped,
            "wasComplete": self.is_passed,
            "faults": self.faults,
        }
