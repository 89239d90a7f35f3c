"""Parked events, and what dead letter sinks took, as items."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from datetime import datetime
from typing import Any

from headrace_cli.access.session import Session
from headrace_cli.catalog.names import ChannelScope, parse_ref
from headrace_cli.catalog.subscriptions import subscriptions, sunk_of
from headrace_cli.parked import items
from headrace_cli.parked.selection import Selection
from headrace_cli.parked.shelf import shelves

SUMMED = ("channel", "subscription", "reason")


async def list_parked(
    session: Session, scope: ChannelScope, selection: Selection, now: datetime, *, most: int | None
) -> tuple[list[dict[str, Any]], bool]:
    """Up to `most` of the selected parked events, and whether there are more."""
    found: list[dict[str, Any]] = []
    for shelf in await shelves(session, scope):
        async with aclosing(shelf.each(selection)) as events:
            async for one in events:
                if len(found) == most:
                    return found, True
                found.append(items.item(one, str(shelf.channel.ref), now))
    return found, False


def summary(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How many there are by channel, Subscription and reason."""
    counts = Counter(tuple(item[name] for name in SUMMED) for item in found)
    return [
        {"name": "/".join(key[:2]), **dict(zip(SUMMED, key, strict=True)), "events": events}
        for key, events in sorted(counts.items())
    ]


async def list_sunk(
    session: Session, scope: ChannelScope, subscription: str | None, now: datetime
) -> list[dict[str, Any]]:
    """The counts of each Subscription's sink, or of the named one's; the events themselves are at the sink."""
    found = []
    for shelf in await shelves(session, scope):
        for one in await subscriptions(session.admin, shelf.channel):
            meant = subscription is None or one.ref == parse_ref(subscription, one.namespace)
            if meant and (sunk := await sunk_of(session.admin, one)) is not None:
                found.append(items.sunk_item(one, sunk, now))
    return found
