"""What `subscription pause|resume|reset|delete` do, in which order. Their words are in `headrace_cli.commands`."""

from __future__ import annotations

from datetime import UTC, datetime

from headrace.core.errors import Misconfigured
from headrace.core.plural import counted
from headrace.core.quoting import quoted
from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import Reader
from headrace_cli.catalog import moves
from headrace_cli.catalog.moves import FOR_EVER, Move
from headrace_cli.catalog.names import ref
from headrace_cli.catalog.subscriptions import Subscription, all_subscriptions, the_one
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.view import units
from headrace_cli.view.output import say


async def found(session: Session, given: Given) -> Subscription:
    """The Subscription that a verb's arguments name; raises Refused without exactly one."""
    of = ref(given["channel"], given["namespace"]) if given["channel"] else None
    known = await all_subscriptions(session.api, session.admin, of)
    return the_one(known, given["subscription"], given["namespace"])


async def pause(session: Session, given: Given) -> int:
    now = datetime.now(UTC)
    until = FOR_EVER
    if given["for_"] is not None:
        until = now + units.asked_span(given["for_"], "--for")
    elif given["until"] is not None:
        until = units.asked_moment(given["until"], now, "--until")
        if until <= now:
            raise Misconfigured(
                f"--until is {quoted(given['until'])}, which is over: give a time to come", field="--until"
            )
    one = await found(session, given)
    await moves.pause(session, one, until)
    end = "until it is resumed" if until == FOR_EVER else f"until {units.stamp(until)}"
    waiting = counted(one.pending, "event is", "events are")
    say(f"{one.ref} is paused {end}; {waiting} pending, what is handed out is finished")
    return 0


async def resume(session: Session, given: Given) -> int:
    one = await found(session, given)
    was = one.info.get("paused")
    await moves.pause(session, one, None)
    say(f"{one.ref} goes on with {counted(one.pending, 'pending event')}" if was else f"{one.ref} was not paused")
    return 0


async def reset(session: Session, given: Given) -> int:
    if all(given[name] in (None, False) for name in ("to_sequence", "to_time", "all", "new")):
        raise Misconfigured("say where to: --to-sequence, --to-time, --all, or --new", field="--to-sequence")
    one = await found(session, given)
    planned = moves.move(one, await _sequence(session, one, given))
    told = _told(one, planned)
    if given["dry_run"]:
        tell(f"{told} Nothing was changed.")
        return 0
    if not confirmed(f"{told} Reset it?", yes=given["yes"]):
        tell("nothing was changed")
        return 0
    await moves.reset(session, one, planned.sequence)
    say(f"{one.ref} goes on at sequence {planned.sequence}")
    return 0


async def delete(session: Session, given: Given) -> int:
    one = await found(session, given)
    left = one.pending + one.unacked
    told = (
        f"Consumer {one.consumer} of {one.channel.ref} goes, with its position; "
        f"{counted(left, 'event is', 'events are')} not delivered to it."
    )
    if one.subscriber is not None and one.state != "gone":
        told += f" Subscription {one.ref} is served by it: a running operator makes it again, from the start."
    if not confirmed(f"{told} Delete it?", yes=given["yes"]):
        tell("nothing was changed")
        return 0
    await moves.delete(session, one)
    say(f"{one.consumer} is deleted")
    return 0


async def _sequence(session: Session, one: Subscription, given: Given) -> int:
    state = one.channel.info["state"]
    if given["all"]:
        return max(1, int(state["first_seq"]))
    if given["new"]:
        return int(state["last_seq"]) + 1
    if given["to_time"] is not None:
        moment = units.asked_moment(given["to_time"], datetime.now(UTC), "--to-time")
        return max(1, await Reader(session.api, one.channel.stream).sequence_at(moment))
    end = int(state["last_seq"]) + 1
    if given["to_sequence"] > end:
        problem = (
            f"--to-sequence is {given['to_sequence']}, but the stream's next event is {end}: all up to there would be"
        )
        raise Misconfigured(f"{problem} passed over; give --new for what comes next", field="--to-sequence")
    return int(given["to_sequence"])


def _told(one: Subscription, planned: Move) -> str:
    parts = []
    if planned.again:
        parts.append(f"gets up to {counted(planned.again, 'event')} again")
    if planned.skipped:
        parts.append(f"never gets up to {counted(planned.skipped, 'event')} that it has not settled")
    if planned.unsettled:
        parts.append(f"gives up what is under way ({counted(planned.unsettled, 'event')})")
    does = "; it ".join(parts) or "misses nothing and gets nothing twice"
    stands = f"{one.ref} has settled everything up to sequence {one.settled_to}"
    return f"{stands}. At sequence {planned.sequence} it {does}."
