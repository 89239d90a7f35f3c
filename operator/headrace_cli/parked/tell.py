"""A parked event as the value that `-o json` prints, and as people read it. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headrace.core.parked import Parked
from headrace_cli.view import event as view
from headrace_cli.view import units
from headrace_cli.view.output import Column

COLUMNS: tuple[Column, ...] = (
    ("POSITION", lambda item: item["position"]),
    ("AGE", lambda item: item["age"]),
    ("SUBSCRIPTION", lambda item: item["subscription"]),
    ("TYPE", lambda item: item["type"]),
    ("ID", lambda item: item["id"]),
    ("ATTEMPTS", lambda item: item["attempts"]),
    ("STATUS", lambda item: "-" if item["status"] is None else item["status"]),
    ("REASON", lambda item: item["reason"]),
)
CHANNEL: Column = ("CHANNEL", lambda item: item["channel"])


def item(one: Parked, channel: str, now: datetime) -> dict[str, Any]:
    """Without its data."""
    return {
        "name": str(one.position),
        "channel": channel,
        "position": one.position,
        "parkedAt": units.stamp(one.parked_at),
        "age": units.age(one.parked_at, now),
        "subscription": one.subscription,
        "reason": one.reason,
        "attempts": one.attempts,
        "status": one.status,
        "destination": one.destination,
        "stream": one.stream,
        "sequence": one.sequence,
        "consumer": one.consumer,
        "type": one.event.type,
        "source": one.event.source,
        "id": one.event.id,
        "bytes": one.size,
        "droppedHeaders": one.dropped,
    }


def text(one: Parked, channel: str, now: datetime) -> str:
    """The whole event, with where it came from and why it is here."""
    about = {
        "parked": f"{units.age(one.parked_at, now)} ago, {units.stamp(one.parked_at)}",
        "subscription": one.subscription,
        "reason": one.reason,
        "attempts": one.attempts,
        "failed at": f"{one.destination} with {one.status}" if one.destination else "",
        "stored as": f"sequence {one.sequence} of {one.stream}",
        "headers left out": one.dropped or "",
    }
    return view.pretty(one.event, f"#{one.position} of {channel}", about=about)
