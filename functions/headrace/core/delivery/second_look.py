"""A finding that counts only when a second look, a while later, finds the same: the mark that the first one leaves.

Numbers of a server that has just elected a leader, or of an event that is settled this moment, pass. Pure; called by
`headrace.reconcile.forgetting` and `headrace.reconcile.positions`, which store the marks in the aside stream.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

SURE_AFTER = timedelta(seconds=20)
"""Between the two looks: a channel is looked at again after 30 s."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The finding of a first look.

    Attributes:
        of: what was found, as a number: another number is another finding. None where there was none to be read.
        at: when it was found, by the clock of the process that looked.
    """

    of: float | None
    at: float

    def to_json(self) -> str:
        return json.dumps({"of": self.of, "at": self.at})

    def proves(self, of: float | None, now: datetime) -> bool:
        """Was the same found so long ago that the finding is sure?"""
        return self.of == of and now.timestamp() - self.at >= SURE_AFTER.total_seconds()

    def holds(self, of: float | None, now: datetime) -> bool:
        """Is the mark about this finding, and not from the future of another clock?"""
        return self.of == of and self.at <= now.timestamp()


def read_mark(text: str | None) -> Mark | None:
    """The inverse of `Mark.to_json`; None for no mark or a damaged one."""
    try:
        body = json.loads(text or "")
        of = body["of"]
        return Mark(None if of is None else float(of), float(body["at"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
