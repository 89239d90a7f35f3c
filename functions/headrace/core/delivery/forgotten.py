"""Events that wait for a retry which NATS will never make, since their consumer does not hold them any more.

A `max_deliver` that somebody has set by hand makes NATS drop them, and leaves the stage record behind. No request lists
the messages that a consumer holds, so its numbers have to do, and two looks: the first stores a mark beside the record,
and an event that is still forgotten at a later one is parked (ADR 043). Pure; called by
`headrace.reconcile.forgetting`, and by `doctor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headrace.core.delivery import stage_record

LONG_PAST = timedelta(seconds=60)
"""A retry that is this late never comes if the consumer does not hold the event: an acknowledgement, after which the
record is deleted, takes far less."""
REASON = "NATS gave it up before its retries were over: was max_deliver set on the consumer by hand?"


@dataclass(frozen=True, slots=True)
class Suspects:
    """Stage records of one consumer, some of them of events that it does not hold.

    Attributes:
        sequences: the sequences of their events.
        most: at most so many of them are not held; the due times tell which.
    """

    sequences: tuple[int, ...] = ()
    most: int = 0


def suspects(records: Sequence[int], info: Mapping[str, Any]) -> Suspects:
    """Which records may be of events that their consumer does not hold.

    Args:
        records: the sequences of all stage records of the consumer.
        info: its CONSUMER.INFO.
    """
    # Events beyond the position are to be delivered in any case: it was moved back.
    position = int((info.get("delivered") or {}).get("stream_seq") or 0)
    records = [one for one in records if one <= position]
    out = int(info.get("num_ack_pending") or 0)
    if not out:
        return Suspects(tuple(records), len(records))
    # Up to its floor everything is settled, as far as the consumer is concerned.
    floor = int((info.get("ack_floor") or {}).get("stream_seq") or 0)
    below = tuple(one for one in records if one <= floor)
    # The consumer can't hold more than it says; its floor may stand still while events come and go.
    excess = len(records) - out
    return Suspects(tuple(records), excess) if excess > len(below) else Suspects(below, len(below))


def overdue(dues: Mapping[int, float | None], most: int, now: datetime) -> tuple[int, ...]:
    """The suspects whose retry is long past, the most overdue first, and no more than `most`.

    Args:
        dues: the suspects' due times by sequence; None for a damaged record, which nobody waits for.
    """
    limit = (now - LONG_PAST).timestamp()
    late = [(due or 0.0, sequence) for sequence, due in dues.items() if (due or 0.0) < limit]
    return tuple(sequence for _, sequence in sorted(late)[:most])


def due_of(text: str) -> float | None:
    """The due time in a stored stage record; None where the record is damaged or has none."""
    record = stage_record.from_json(text.encode())
    return None if record is None else record.due
