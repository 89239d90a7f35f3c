"""One thing that is wrong, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """PROBLEM: events don't arrive, or will not soon. RISK: they do, and something is lost or about to go wrong.
    NOTE: as somebody wants it, and a reason why events don't arrive."""

    PROBLEM = 3
    RISK = 2
    NOTE = 1


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: for scripts; does not change.
        where: the channel, Subscription or stream.
    """

    severity: Severity
    code: str
    where: str
    what: str
    do: str
