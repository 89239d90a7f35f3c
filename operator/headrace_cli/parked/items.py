"""Parked events as the items that `-o json` prints, and the texts that people read. Pure."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from headrace.core.delivery.delivery import ERROR_DATA_BYTES
from headrace.core.delivery.parked import Parked
from headrace.core.delivery.sunk import Sunk
from headrace.core.plural import counted
from headrace.core.quoting import plain
from headrace_cli.catalog.subscriptions import CatalogSubscription
from headrace_cli.view import event as event_view
from headrace_cli.view import units
from headrace_cli.view.output import Column, column, columns

# So many bytes of an answer are shown that is no text.
SHOWN_BYTES = 16

COLUMNS: tuple[Column, ...] = (
    *columns("POSITION AGE SUBSCRIPTION TYPE ID ATTEMPTS"),
    ("STATUS", lambda item: "-" if item["status"] is None or not item["answered"] else item["status"]),
    column("REASON"),
)
SUNK_COLUMNS: tuple[Column, ...] = (
    *columns("SUBSCRIPTION CHANNEL EVENTS"),
    column("LAST", "age"),
    column("ANSWER", "lastAnswer"),
    column("SINK"),
)
CHANNEL = column("CHANNEL")


def item(one: Parked, channel: str, now: datetime) -> dict[str, Any]:
    """A parked event without its data."""
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
        "answered": one.answered,
        "destination": one.destination,
        "stream": one.stream,
        "sequence": one.sequence,
        "consumer": one.consumer,
        "type": one.event.type,
        "source": one.event.source,
        "id": one.event.id,
        "bytes": one.size,
        "droppedHeaders": one.dropped,
        "answer": _answer(one),
    }


def sunk_item(one: CatalogSubscription, sunk: Sunk, now: datetime) -> dict[str, Any]:
    """The events that the dead letter sink of one Subscription took."""
    return {
        "name": str(one.ref),
        "channel": str(one.channel.ref),
        "subscription": str(one.ref),
        "events": sunk.events,
        "last": units.stamp(sunk.at),
        "age": units.age(sunk.at, now),
        "lastAnswer": sunk.last,
        "sink": sunk.sink,
    }


def text(one: Parked, channel: str, now: datetime) -> str:
    """The whole event, with where it came from and why it is here."""
    about = {
        "parked": f"{units.age(one.parked_at, now)} ago, {units.stamp(one.parked_at)}",
        "subscription": one.subscription,
        "reason": one.reason,
        "attempts": one.attempts,
        "failed at": f"{one.destination} {f'with {one.status}' if one.answered else 'without an answer'}"
        if one.destination
        else "",
        "stored as": f"sequence {one.sequence} of {one.stream}",
        "headers left out": one.dropped or "",
    }
    whole = event_view.pretty(one.event, f"#{one.position} of {channel}", about=about)
    return whole + _answer_text(one) if one.answer and one.answered else whole


def _answer(one: Parked) -> dict[str, Any] | None:
    """The beginning of the subscriber's answer, as text if it is text; None when none was kept."""
    if not one.answer:
        return None
    about: dict[str, Any] = {"contentType": one.answer_type or None, "cut": _is_cut(one)}
    text = event_view.beginning(one.answer, cut=_is_cut(one))
    return {**about, "text": text} if text is not None else {**about, "base64": base64.b64encode(one.answer).decode()}


def _answer_text(one: Parked) -> str:
    text = event_view.beginning(one.answer, cut=_is_cut(one))
    of = f"the first {len(one.answer)} bytes" if _is_cut(one) else counted(len(one.answer), "byte")
    kind = f"{plain(one.answer_type)}, " if one.answer_type else ""
    shown = event_view.indented(text, "    ") if text is not None else f"    {one.answer[:SHOWN_BYTES].hex(' ')} …"
    return f"  what came back ({kind}{of}):\n{shown}\n"


def _is_cut(one: Parked) -> bool:
    """Whether the answer may have been longer."""
    return len(one.answer) >= ERROR_DATA_BYTES
