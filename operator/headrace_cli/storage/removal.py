"""Deletes events of a channel: from its stream's beginning on (`purge`), or single ones (`rm-event`).

What goes, and whose undelivered events these are, is found out first, for somebody to decide on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.core.errors import Refused
from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import MessageReader, StreamMessage
from headrace_cli.catalog.channels import CatalogChannel, channel, forget_stages
from headrace_cli.catalog.names import NamespacedName
from headrace_cli.catalog.subscriptions import CatalogSubscription, subscriptions


@dataclass(frozen=True, slots=True)
class PurgeExtent:
    """The events to be purged; an empty extent means all.

    Attributes:
        until: the last sequence; before: only events stored earlier; keep: so many of the newest stay.
        subject: the NATS subject; only events on it are purged.
    """

    until: int | None = None
    before: datetime | None = None
    keep: int | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Purge:
    """A purge and its consequences.

    Attributes:
        request: the body of STREAM.PURGE.
        count: how many events are deleted; with a subject and a sequence at most so many.
        unsettled: Subscriptions, each with how many of these events it may not have settled.
    """

    channel: CatalogChannel
    request: dict[str, Any]
    count: int
    unsettled: tuple[tuple[NamespacedName, int], ...]


async def plan_purge(session: Session, where: NamespacedName, extent: PurgeExtent) -> Purge:
    """Raises Refused: 404, there is no such channel."""
    found = await channel(session.api, where)
    last = int(found.info["state"]["last_seq"])
    if extent.before is not None:
        last = await MessageReader(session.api, found.stream).sequence_at(extent.before) - 1
    elif extent.until is not None:
        last = min(last, extent.until)
    # The end is fixed here: events that are stored while somebody decides stay. The server takes none beside `keep`.
    request: dict[str, Any] = {"seq": last + 1} if extent.keep is None else {"keep": extent.keep}
    if extent.subject is not None:
        request["filter"] = extent.subject
    count = await _count(session, found, extent, last)
    served = await subscriptions(session.admin, found)
    unsettled = tuple((one.ref, left) for one in served if (left := _left(one, last, count)))
    return Purge(found, request, count, unsettled)


async def purge(session: Session, plan: Purge) -> int:
    """Purge; gives how many events were deleted."""
    answer = await session.api.call(f"STREAM.PURGE.{plan.channel.stream}", plan.request)
    return int(answer["purged"])


async def _count(session: Session, found: CatalogChannel, extent: PurgeExtent, last: int) -> int:
    state = found.info["state"]
    held = int(state["messages"])
    if extent.subject is not None:
        info = await session.admin.info(found.stream, extent.subject)
        subjects: dict[str, int] = (info or {"state": {}})["state"].get("subjects") or {}
        held = sum(subjects.values())
    if extent.keep is not None:
        return max(0, held - extent.keep)
    return max(0, min(held, last - int(state["first_seq"]) + 1))


def _left(one: CatalogSubscription, last: int, count: int) -> int:
    """How many of the events up to `last` this Subscription has not settled, at most."""
    return min(one.pending + one.unacked, max(0, last - one.settled_to), count)


@dataclass(frozen=True, slots=True)
class Single:
    """One event that is to be deleted, and the Subscriptions that may not have settled it."""

    event: StreamMessage
    unsettled: tuple[NamespacedName, ...]


async def find_events(session: Session, found: CatalogChannel, sequences: Sequence[int]) -> list[Single]:
    """Raises Refused: 404, the channel holds no event at one of the sequences."""
    reader = MessageReader(session.api, found.stream)
    events = [await _stored(reader, sequence, found) for sequence in sequences]
    served = await subscriptions(session.admin, found)
    return [Single(each, tuple(one.ref for one in served if one.settled_to < each.sequence)) for each in events]


async def remove(session: Session, found: CatalogChannel, sequence: int, *, erase: bool) -> None:
    """Delete one event; `erase`: overwrite its bytes on disk."""
    await session.api.call(f"STREAM.MSG.DELETE.{found.stream}", {"seq": sequence, "no_erase": not erase})
    if found.aside is not None:
        await forget_stages(session.api, found.aside_name, found.names.stage_subject("*", sequence))


async def _stored(reader: MessageReader, sequence: int, found: CatalogChannel) -> StreamMessage:
    event = await reader.at(sequence)
    if event is None:
        state = found.info["state"]
        held = f"{state['first_seq']} to {state['last_seq']}"
        raise Refused(f"{found.ref} holds no event at sequence {sequence}; it has {held}", status=404)
    return event
