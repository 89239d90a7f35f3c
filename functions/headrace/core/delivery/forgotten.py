"""Events that wait for a retry which NATS will never make, since their consumer does not hold them any more.

A `max_deliver` that somebody has set by hand makes NATS drop them, and leaves the stage record behind. No request lists
the messages that a consumer holds, so its numbers have to do, and two looks: the first stores a mark beside the record,
and an event that is still forgotten at a later one is parked (ADR 043). Pure; called by
`headrace.reconcile.forgetting`, and by `doctor`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headrace.core.delivery import stage_record

LONG_PAST = timedelta(seconds=60)
"""A retry that is so late is one that nobody will make, where its consumer does not hold it: far beyond what an
acknowledgement takes, after which the record is deleted."""
SURE_AFTER = timedelta(seconds=20)
"""Between the two looks: the channel is looked at again after 30 s."""
REASON = "NATS gave it up before its retries were over: was max_deliver set on the consumer by hand?"


@dataclass(frozen=True, slots=True)
class Suspects:
    """Stage records of one consumer, of which some are of events that it does not hold.

    Attributes:
        sequences: of their events.
        most: so many of them at most; which, their due times tell.
    """

    sequences: tuple[int, ...] = ()
    most: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """What a first look has found.

    Attributes:
        due: of the stage record, seconds since the epoch; None of a damaged one. Another one is another attempt.
        at: when it was found, by the clock of who looked.
    """

    due: float | None
    at: float

    def to_json(self) -> str:
        return json.dumps({"due": self.due, "at": self.at})

    def proves(self, due: float | None, now: datetime) -> bool:
        """Was the same found so long ago that it is sure?"""
        return self.due == due and now.timestamp() - self.at >= SURE_AFTER.total_seconds()

    def holds(self, due: float | None, now: datetime) -> bool:
        """Is it about this attempt, and not from the future of another clock?"""
        return self.due == due and self.at <= now.timestamp()


def suspects(records: Sequence[int], info: Mapping[str, Any]) -> Suspects:
    """Which records may be of events that their consumer does not hold.

    Args:
        records: the sequences of all its stage records.
        info: its CONSUMER.INFO.
    """
    # What is beyond is to be delivered in any case: its position was moved back.
    position = int((info.get("delivered") or {}).get("stream_seq") or 0)
    records = [one for one in records if one <= position]
    out = int(info.get("num_ack_pending") or 0)
    if not out:
        return Suspects(tuple(records), len(records))
    # Up to its floor everything is settled, as far as the consumer is concerned.
    floor = int((info.get("ack_floor") or {}).get("stream_seq") or 0)
    below = tuple(one for one in records if one <= floor)
    # It can't hold more than it says; a floor may stand still while events come and go.
    excess = len(records) - out
    return Suspects(tuple(records), excess) if excess > len(below) else Suspects(below, len(below))


def overdue(dues: Mapping[int, float | None], most: int, now: datetime) -> tuple[int, ...]:
    """Those whose retry is long past, the most overdue first, and no more than `most`.

    Args:
        dues: of the suspects, by sequence; None of a damaged record, which nobody waits for.
    """
    limit = (now - LONG_PAST).timestamp()
    late = [(due or 0.0, sequence) for sequence, due in dues.items() if (due or 0.0) < limit]
    return tuple(sequence for _, sequence in sorted(late)[:most])


def due_of(text: str) -> float | None:
    """The due time that a stored stage record has; None where it is damaged, or has none."""
    record = stage_record.from_json(text.encode())
    return None if record is None else record.due


def read_mark(text: str | None) -> Mark | None:
    """The inverse of `Mark.to_json`; None where there is none, or a damaged one."""
    try:
        body = json.loads(text or "")
        due = body["due"]
        return Mark(None if due is None else float(due), float(body["at"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
