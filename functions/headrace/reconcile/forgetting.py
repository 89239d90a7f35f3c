"""Finds the events that wait for a retry which NATS will never make, and parks them: ADR 043.

It knows the order of the steps only: `headrace.core.delivery.forgotten` decides which event is suspected, and when the
suspicion is proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.core.channel.health import Noted
from headrace.core.delivery import forgotten
from headrace.core.delivery.second_look import Mark, read_mark
from headrace.core.nats.action import Done, KeepText, ParkForgotten, PurgeSubjects
from headrace.core.nats.stream import ChannelStream
from headrace.reconcile.ports import Administration

# Events of one consumer at one look: each takes a few requests, and the rest follows at the next look.
MOST = 200


async def see_to(
    place: ChannelStream, noted: Noted, infos: Iterable[Mapping[str, Any]], api: Administration, now: datetime
) -> dict[str, tuple[int, ...]]:
    """Mark suspected events, park proven ones.

    Returns:
        The sequences that are not parked yet, by consumer: they need another look.
    """
    known = {str(info["name"]): info for info in infos}
    found = {}
    for consumer, records in noted.records.items():
        if consumer in known:
            late = await _of_one(place, consumer, records, known[consumer], api, now)
            if late:
                found[consumer] = late
    for consumer, marked in noted.forgotten.items():
        # These events were delivered after all, or are gone.
        for sequence in set(marked) - set(found.get(consumer, ())):
            subject = place.channel.forgotten_subject(consumer, sequence)
            await api.carry_out(PurgeSubjects(place.aside, subject))
    return found


async def _of_one(
    place: ChannelStream,
    consumer: str,
    records: tuple[int, ...],
    info: Mapping[str, Any],
    api: Administration,
    now: datetime,
) -> tuple[int, ...]:
    suspects = forgotten.suspects(records, info)
    if not suspects.most:
        return ()
    dues = {}
    for sequence in suspects.sequences[:MOST]:
        text = await api.text(place.aside, place.channel.stage_subject(consumer, sequence))
        # Without a record the event was settled this moment.
        if text is not None:
            dues[sequence] = forgotten.due_of(text)
    late = forgotten.overdue(dues, suspects.most, now)
    return tuple([one for one in late if not await _is_parked(place, consumer, one, dues[one], api, now)])


async def _is_parked(
    place: ChannelStream, consumer: str, sequence: int, due: float | None, api: Administration, now: datetime
) -> bool:
    subject = place.channel.forgotten_subject(consumer, sequence)
    mark = read_mark(await api.text(place.aside, subject))
    if mark is None or not mark.holds(due, now):
        await api.carry_out(KeepText(place.aside, subject, Mark(due, now.timestamp()).to_json()))
        return False
    if not mark.proves(due, now):
        return False
    parked = ParkForgotten(
        place.stream, place.aside, consumer, place.channel.stage_subject(consumer, sequence), forgotten.REASON
    )
    return isinstance(await api.carry_out(parked), Done)
