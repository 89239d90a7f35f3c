"""What `purge` and `rm-event` do, in which order: first they say what goes and whose undelivered events these are."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from headrace.core.errors import HeadraceError, Misconfigured, Refused
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import Reader, Stored
from headrace_cli.catalog.channels import Channel, channel
from headrace_cli.catalog.names import ref
from headrace_cli.catalog.subscriptions import Subscription, subscriptions
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.view import units
from headrace_cli.view.output import plain, say


async def purge(session: Session, given: Given) -> int:
    """Delete events of a stream from its beginning on."""
    options = ("until_sequence", "older_than", "keep", "all")
    if all(given[name] in (None, False) for name in options) and given["subject"] is None:
        wanted = "give --until-sequence, --older-than, --keep, --subject, or --all"
        raise Misconfigured(f"say what goes: {wanted}", field="--all")
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    last, body = await _extent(session, found, given)
    count = await _count(session, found, given, last)
    served = await subscriptions(session.admin, found)
    lines = [f"{counted(count, 'event')} of {found.ref} to be deleted for good."]
    lines += [
        f"  {one.ref} has not settled up to {left} of them" for one in served if (left := _left(one, last, count))
    ]
    if given["dry_run"] or not count:
        tell("\n".join([*lines, "Nothing was purged."]))
        return 0
    if not confirmed("\n".join([*lines, "Purge them?"]), yes=given["yes"]):
        tell("nothing was purged")
        return 0
    answer = await session.api.call(f"STREAM.PURGE.{found.stream}", body)
    say(f"purged {counted(answer['purged'], 'event')} of {found.ref}")
    return 0


async def _extent(session: Session, found: Channel, given: Given) -> tuple[int, dict[str, object]]:
    """The last sequence that goes, and the request."""
    body: dict[str, object] = {}
    last = int(found.info["state"]["last_seq"])
    if given["subject"] is not None:
        body["filter"] = given["subject"]
    if given["keep"] is not None:
        body["keep"] = given["keep"]
    if given["older_than"] is not None:
        moment = datetime.now(UTC) - units.asked_span(given["older_than"], "--older-than")
        last = await Reader(session.api, found.stream).sequence_at(moment) - 1
    elif given["until_sequence"] is not None:
        last = min(last, given["until_sequence"])
    # Fixed here: what is stored while somebody makes up his mind is not meant. Beside `keep` the server takes none.
    if given["keep"] is None:
        body["seq"] = last + 1
    return last, body


async def _count(session: Session, found: Channel, given: Given, last: int) -> int:
    """How many events go; with a subject and a sequence at most so many."""
    state = found.info["state"]
    if given["subject"] is not None:
        info = await session.admin.info(found.stream, given["subject"])
        subjects: dict[str, int] = (info or {"state": {}})["state"].get("subjects") or {}
        held = sum(subjects.values())
    else:
        held = int(state["messages"])
    if given["keep"] is not None:
        return max(0, held - int(given["keep"]))
    return max(0, min(held, last - int(state["first_seq"]) + 1))


def _left(one: Subscription, last: int, count: int) -> int:
    """Of events up to `last`: how many this Subscription has not settled, at most."""
    return min(one.pending + one.unacked, max(0, last - one.settled_to), count)


async def remove(session: Session, given: Given) -> int:
    """Delete single events, and overwrite their bytes on disk."""
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    reader = Reader(session.api, found.stream)
    events = [await _stored(reader, sequence, found) for sequence in given["sequences"]]
    served = await subscriptions(session.admin, found)
    lines = [_line(each, served) for each in events]
    if not confirmed(
        "\n".join([*lines, f"Delete {counted(len(events), 'event')} of {found.ref} for good?"]), yes=given["yes"]
    ):
        tell("nothing was deleted")
        return 0
    for each in events:
        body = {"seq": each.sequence, "no_erase": bool(given["no_erase"])}
        await session.api.call(f"STREAM.MSG.DELETE.{found.stream}", body)
        await _forget(session, found, each.sequence)
        say(f"sequence {each.sequence} of {found.ref} is deleted")
    return 0


async def _stored(reader: Reader, sequence: int, found: Channel) -> Stored:
    event = await reader.at(sequence)
    if event is None:
        state = found.info["state"]
        held = f"{state['first_seq']} to {state['last_seq']}"
        raise Refused(f"{found.ref} holds no event at sequence {sequence}; it has {held}", status=404)
    return event


def _line(each: Stored, served: list[Subscription]) -> str:
    waiting = [str(one.ref) for one in served if one.settled_to < each.sequence]
    open_ = f"; not settled for sure by {', '.join(waiting)}" if waiting else ""
    event = each.event
    return f"#{each.sequence}  {units.stamp(each.time)}  {plain(event.type)} {plain(event.id)}{open_}"


async def _forget(session: Session, found: Channel, sequence: int) -> None:
    """What was noted of its deliveries would be taken for an event that the server has discarded."""
    if found.aside is None:
        return
    stages = f"{found.names.stage_subject('*', sequence)}"
    for subject in (stages, f"{stages}.stuck"):
        with suppress(HeadraceError):
            await session.api.call(f"STREAM.PURGE.{found.aside_name}", {"filter": subject})
