"""What the oracle says of a history that broke a promise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Invariant(IntEnum):
    """What must hold in every history.

    FATE: an accepted event is delivered (and its reply, too), dead-lettered or parked, and settled after that.
    STRANGE: nothing arrives that was not sent, was refused, or is not what was sent; nothing is stored twice.
    DUPLICATE: an event comes again only where a strike made it unavoidable. ATTEMPTS: each stage has its 1 + retry
    POSTs, no more and no fewer. EARLY: no POST before its back-off is over. ORDER: no later event goes first.
    LEASES: no more leases at once than allowed, and none too long. ZERO: at rest nothing is open.
    PROGRESS: after the last strike everything gets settled, in time. HANDS: what is in hand stays within its bounds.
    RECORDS: stage records are gone when their event is, and a parked copy tells the truth.
    COUNTS: counters and conditions say what happened. ERRORS: no unhandled exception, no task destroyed while pending.
    REPLAY: one seed, one history.
    """

    FATE = 1
    STRANGE = 2
    DUPLICATE = 3
    ATTEMPTS = 4
    EARLY = 5
    ORDER = 6
    LEASES = 7
    ZERO = 8
    PROGRESS = 9
    HANDS = 10
    RECORDS = 11
    COUNTS = 12
    ERRORS = 13
    REPLAY = 14


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken promise; `event` is empty where it is not about one."""

    invariant: Invariant
    words: str
    event: str = ""
    at: float = 0.0

    def __str__(self) -> str:
        about = f" {self.event}" if self.event else ""
        return f"{self.invariant} {self.invariant.name}{about} at {self.at:.3f} s: {self.words}"
