"""Finds the consumers that stand ahead of their stream, and puts them back: ADR 069.

It knows the order of the steps only: `headrace.core.channel.position` decides who stands ahead, and where it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.core.channel import position
from headrace.core.channel.health import Noted
from headrace.core.channel.own_consumer import owned
from headrace.core.delivery.second_look import Mark, read_mark
from headrace.core.errors import Refused
from headrace.core.nats.action import Done, KeepText, PurgeSubjects, ResetConsumer
from headrace.core.nats.stream import ChannelStream
from headrace.reconcile.ports import Administration

Info = Mapping[str, Any]

# A leader applies what it has agreed upon a moment later: what was stored so long after a look is surely new.
CERTAIN_SECONDS = 1.0


async def see_to(
    place: ChannelStream, noted: Noted, stream: Info, infos: Iterable[Info], api: Administration, now: datetime
) -> dict[str, int]:
    """Mark those that are found first, put those back that are found again.

    Args:
        stream: STREAM.INFO, as it was before `infos`.

    Returns:
        By how many events consumers stand ahead that are not put back yet; zero where the stream has outgrown one.
    """
    if not (noted.ahead or position.ahead(stream, infos)):
        return {}
    # They may have got what has come since the stream was looked at.
    newer = await api.info(place.stream)
    if newer is None:
        return {}
    found = position.ahead(newer, infos)
    own = {str(info["name"]): info for info in infos if owned(info["config"], place.owner) is not None}
    for consumer in own.keys() & {*found, *noted.ahead}:
        is_ahead = consumer in found
        if await _is_put_back(place, noted, newer, own[consumer], api, position.time(newer, now), is_ahead=is_ahead):
            found.pop(consumer, None)
        else:
            found.setdefault(consumer, 0)
    return found


async def _is_put_back(
    place: ChannelStream, noted: Noted, stream: Info, info: Info, api: Administration, now: datetime, *, is_ahead: bool
) -> bool:
    consumer, stands = str(info["name"]), float(position.position(info))
    subject = place.channel.ahead_subject(consumer)
    mark = read_mark(await api.text(place.aside, subject))
    if is_ahead and (mark is None or not mark.holds(stands, now)):
        await api.carry_out(KeepText(place.aside, subject, Mark(stands, now.timestamp()).to_json()))
        return False
    if mark is not None and not mark.proves(mark.of, now):
        return False
    if mark is not None and (is_ahead or await _was_passed_by(place, mark, api)):
        await _forget_lost(place, noted, consumer, int(stream["state"]["last_seq"]), api)
        if not await _is_reset(place, stream, info, api, now) and is_ahead:
            return False
    await api.carry_out(PurgeSubjects(place.aside, subject))
    return True


async def _was_passed_by(place: ChannelStream, mark: Mark, api: Administration) -> bool:
    """Was anything stored since the first look at a sequence that the consumer had passed by then?

    Nothing can be, unless the stream has lost what it had there; then it has grown past the consumer meanwhile.
    """
    try:
        return await api.first_since(place.stream, _iso(mark.at + CERTAIN_SECONDS)) <= (mark.of or 0)
    except Refused:
        return False


async def _is_reset(place: ChannelStream, stream: Info, info: Info, api: Administration, now: datetime) -> bool:
    last = int(stream["state"]["last_seq"])
    try:
        first = await api.first_since(place.stream, _iso((now - position.REWIND).timestamp()))
    except Refused:
        first = last + 1
    there = position.goes_on(stream, info, first)
    return isinstance(await api.carry_out(ResetConsumer(place.stream, str(info["name"]), there)), Done)


async def _forget_lost(place: ChannelStream, noted: Noted, consumer: str, last: int, api: Administration) -> None:
    """Delete the records of lost events: new events get their sequences, and no attempt of theirs."""
    for sequence in {*noted.records.get(consumer, ()), *noted.stuck.get(consumer, ())}:
        if sequence > last:
            await api.carry_out(PurgeSubjects(place.aside, place.channel.stage_subject(consumer, sequence)))
            await api.carry_out(PurgeSubjects(place.aside, place.channel.stuck_subject(consumer, sequence)))


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
