"""What `purge`, `rm-event`, `backup` and `restore` do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from headrace.core.errors import Misconfigured, Refused
from headrace.core.plural import counted
from headrace.core.quoting import plain
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import channel
from headrace_cli.commands.console import confirmed, say, tell
from headrace_cli.commands.params import channel_of
from headrace_cli.commands.rules import Given
from headrace_cli.commands.sessions import on_nats
from headrace_cli.storage import backup, removal
from headrace_cli.storage.removal import PurgeExtent, Single
from headrace_cli.view import units
from headrace_cli.view.progress import Progress


async def purge(session: Session, given: Given) -> int:
    if all(given[name] in (None, False) for name in ("until_sequence", "older_than", "keep", "all", "subject")):
        wanted = "give --until-sequence, --older-than, --keep, --subject, or --all"
        raise Misconfigured(f"say what goes: {wanted}", field="--all")
    before = None
    if given["older_than"] is not None:
        before = datetime.now(UTC) - units.asked_span(given["older_than"], "--older-than")
    extent = PurgeExtent(given["until_sequence"], before, given["keep"], given["subject"])
    plan = await removal.plan_purge(session, channel_of(given), extent)
    what = f"{counted(plan.count, 'event')} of {plan.channel.ref} to be deleted for good.\n" + "".join(
        f"  {ref} has not settled up to {left} of them\n" for ref, left in plan.unsettled
    )
    if given["dry_run"] or not plan.count:
        tell(f"{what}Nothing was purged.")
    elif confirmed(f"{what}Purge them?", yes=given["yes"], otherwise="nothing was purged"):
        say(f"purged {counted(await removal.purge(session, plan), 'event')} of {plan.channel.ref}")
    return 0


async def remove_events(session: Session, given: Given) -> int:
    found = await channel(session.api, channel_of(given))
    events = await removal.find_events(session, found, given["sequences"])
    question = f"Delete {counted(len(events), 'event')} of {found.ref} for good?"
    if confirmed("\n".join([*map(_line, events), question]), yes=given["yes"], otherwise="nothing was deleted"):
        for each in events:
            sequence = each.event.sequence
            await removal.remove(session, found, sequence, erase=not given["no_erase"])
            say(f"sequence {sequence} of {found.ref} is deleted")
    return 0


def _line(each: Single) -> str:
    message, event = each.event, each.event.event
    unsettled = f"; not settled for sure by {', '.join(map(str, each.unsettled))}" if each.unsettled else ""
    return f"#{message.sequence}  {units.stamp(message.time)}  {plain(event.type)} {plain(event.id)}{unsettled}"


async def save(session: Session, given: Given) -> int:
    """Save a channel's streams; the snapshots that an interrupted run has finished are kept."""
    found = await channel(session.api, channel_of(given))
    known = backup.begin(Path(given["directory"]), found, again=given["again"])
    for name in backup.streams_of(found):
        if name in known.streams:
            tell(f"{name} is saved already")
            continue
        info = await session.api.call(f"STREAM.INFO.{name}")
        with Progress("saved", int(info["state"]["bytes"]), what="byte") as progress:
            taken = await known.save(session, name, progress.step)
        tell(f"{name}: {counted(taken.state['messages'], 'message')}, {units.size(taken.bytes)}")
    known.end()
    say(f"{found.ref} is saved in {known.directory}")
    return 0


async def restore(session: Session, given: Given) -> int:
    """Bring the streams back, except those that an interrupted run has brought back already."""
    known = backup.load(Path(given["directory"]))
    if not known.complete:
        problem = "was interrupted: run `kn jetstream backup` again, it goes on"
        raise Misconfigured(f"the backup in {known.directory} {problem}", field="DIRECTORY")
    known.verify()
    tell(f"{known.channel}, saved at {known.taken}; checksums are right")
    if given["verify"]:
        return 0
    there = {name: await session.api.find(f"STREAM.INFO.{name}") for name in known.streams}
    if all(there.values()):
        cure = "delete the channel first (kn jetstream channel delete), nothing is replaced"
        raise Refused(f"{', '.join(known.streams)} exist: {cure}", status=409)
    count = sum(int(taken.state["messages"]) for name, taken in known.streams.items() if there[name] is None)
    if not confirmed(f"Bring back {counted(count, 'message')} of {known.channel}?", yes=given["yes"]):
        return 0
    for name in known.order_of_return():
        if there[name] is not None:
            tell(f"{name} is there, and left alone")
            continue
        with Progress("brought back", known.streams[name].bytes, what="byte") as progress:
            state = await known.bring_back(session, name, progress.step)
        consumers = counted(state.get("consumer_count", 0), "consumer")
        tell(f"{name}: {counted(state['messages'], 'message')}, {consumers}")
    say(f"{known.channel} is back")
    return 0


VERBS = {"purge": purge, "rm-event": remove_events, "backup": save, "restore": restore}


def run(verb: str, given: Given) -> int:
    return on_nats(given, VERBS[verb])
