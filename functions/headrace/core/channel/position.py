"""Consumers that stand ahead of their stream, and where they are to go on: ADR 069.

Servers that have lost power together, without syncing each write, can remember more of a consumer than of its stream.
The next events then take sequences that the consumer has passed. Pure; called by `headrace.reconcile.positions`, and by
`doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

REWIND = timedelta(minutes=10)
"""What was stored within so long before a consumer is put back may have passed it by. Longer than it takes an operator
to come back with NATS, and to look twice."""


def ahead(stream: Mapping[str, Any], infos: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """By how many events consumers stand ahead of the end of their stream; so many more pass them by.

    Args:
        stream: STREAM.INFO, not older than `infos`.
    """
    last, found = stream["state"].get("last_seq"), {}
    for info in infos if last is not None else ():
        beyond = position(info) - int(last or 0)
        # One that has not delivered anything stands where its author wants it to begin.
        if beyond > 0 and (info.get("delivered") or {}).get("consumer_seq"):
            found[str(info["name"])] = beyond
    return found


def position(info: Mapping[str, Any]) -> int:
    """The last sequence that a consumer has delivered, or passed over."""
    return int((info.get("delivered") or {}).get("stream_seq") or 0)


def goes_on(stream: Mapping[str, Any], info: Mapping[str, Any], first: int) -> int:
    """Where a consumer goes on: no further than behind its floor, so that nothing unsettled is passed over.

    Args:
        stream: STREAM.INFO.
        info: of the consumer.
        first: what was stored within `REWIND` begins there.
    """
    floor = int((info.get("ack_floor") or {}).get("stream_seq") or 0)
    return min(floor + 1, int(stream["state"].get("last_seq") or 0) + 1, first)


def time(stream: Mapping[str, Any], now: datetime) -> datetime:
    """The time by the server's clock, which stamps what it stores; ours, where it does not tell."""
    try:
        moment = datetime.fromisoformat(str(stream.get("ts")))
    except ValueError:
        return now
    return moment if moment.tzinfo else now
