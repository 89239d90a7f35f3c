"""What the verbs of `deadletter` do: they list, show, replay and discard parked events."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from headrace.core.delivery.parked import ParkedFilter
from headrace.core.errors import Misconfigured
from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import channel
from headrace_cli.catalog.names import parse_ref
from headrace_cli.commands.console import confirmed, show, show_list, tell
from headrace_cli.commands.params import channel_of, scope_of
from headrace_cli.commands.rules import Given
from headrace_cli.commands.sessions import on_nats
from headrace_cli.events.filters import event_filter
from headrace_cli.parked import fate, items, listing
from headrace_cli.parked.fate import Work
from headrace_cli.parked.selection import Selection
from headrace_cli.parked.shelf import Shelf
from headrace_cli.view import event as event_view
from headrace_cli.view.output import column
from headrace_cli.view.progress import Progress
from headrace_cli.view.units import asked_span


async def list_parked(session: Session, given: Given) -> int:
    now, scope = datetime.now(UTC), scope_of(given)
    if given["sunk"]:
        sunk = await listing.list_sunk(session, scope, given["subscription"], now)
        show_list(sunk, given["output"], items.SUNK_COLUMNS, none="nothing went to a dead letter sink")
        return 0
    most = None if given["summary"] else given["limit"]
    found, more = await listing.list_parked(session, scope, _selection(given, now), now, most=most)
    if more and most is not None:
        tell(f"there are more than {counted(most, 'event')}: see --limit, or count with --summary")
    columns = items.COLUMNS if given["channel"] else (items.CHANNEL, *items.COLUMNS)
    if given["summary"]:
        found, columns = listing.summary(found), tuple(column(name.upper()) for name in (*listing.SUMMED, "events"))
    show_list(found, given["output"], columns, none="nothing is parked")
    return 0


async def show_parked(session: Session, given: Given) -> int:
    shelf, now = await _shelf(session, given), datetime.now(UTC)
    of = str(shelf.channel.ref)
    for number, position in enumerate(given["positions"]):
        one = await shelf.events.show(position)
        if given["output"] == "json":
            show(f"{event_view.line(one.event, **items.item(one, of, now))}\n")
        else:
            show(("\n" if number else "") + items.text(one, of, now))
    return 0


async def replay(session: Session, given: Given) -> int:
    run = given["run"] or secrets.token_hex(4)
    where = given["to_channel"] or given["to_uri"] or "the subscribers that did not take them"
    shelf, selection = await _shelf(session, given), _selection(given, datetime.now(UTC))
    _demand_choice(selection, given, "replay")
    async with AsyncExitStack() as stack:
        if given["to_channel"]:
            to = (await channel(session.api, parse_ref(given["to_channel"], given["namespace"]))).ref
            work = fate.to_channel(shelf, run, to)
        elif given["to_uri"]:
            work = await stack.enter_async_context(fate.to_uri(shelf, given["to_uri"]))
        else:
            work = fate.to_subscriber(shelf, run)
        return await _settle(shelf, selection, given, "replayed", f"to {where}, run {run}", work)


async def discard(session: Session, given: Given) -> int:
    shelf, selection = await _shelf(session, given), _selection(given, datetime.now(UTC))
    _demand_choice(selection, given, "discard")
    if not given["dry_run"]:
        count = await shelf.count(selection)
        question = f"Delete {counted(count, 'parked event')} of {shelf.channel.ref} for good?"
        if not count or not confirmed(question, yes=given["yes"]):
            tell("nothing was discarded")
            return 0
    saved = _open(given["save"]) if given["save"] else None
    try:
        return await _settle(shelf, selection, given, "discarded", "for good", fate.discard(shelf, saved))
    finally:
        if saved is not None:
            saved.close()


async def _settle(shelf: Shelf, selection: Selection, given: Given, verb: str, how: str, work: Work) -> int:
    """Settle the events; gives the exit status. An event that fails is reported, and stays."""
    failed, dry = 0, given["dry_run"]
    with Progress(verb) as progress:
        try:
            settled = fate.settle_each(shelf, selection, None if dry else work, given.get("rate"))
            async with aclosing(settled) as each:
                async for position, failure in each:
                    if failure is None:
                        progress.step()
                    else:
                        failed += 1
                        tell(f"{position} stays: {failure}")
        finally:
            would = "would be " if dry else ""
            stay = f"; {counted(failed, 'could not be, and stays', 'could not be, and stay')}" if failed else ""
            tell(f"{counted(progress.done, 'parked event')} of {shelf.channel.ref} {would}{verb} {how}{stay}")
    return 1 if failed else 0


def _open(name: str) -> TextIO:
    try:
        return Path(name).open("a")
    except OSError as error:
        problem = f"--save {name} can't be written, and nothing was discarded: {error.strerror or error}"
        raise Misconfigured(problem, field="--save") from error


async def _shelf(session: Session, given: Given) -> Shelf:
    return Shelf(session, await channel(session.api, channel_of(given)))


def _selection(given: Given, now: datetime) -> Selection:
    def ago(name: str) -> datetime | None:
        text = given[name]
        return None if text is None else now - asked_span(text, f"--{name.replace('_', '-')}")

    parked = ParkedFilter(since=ago("newer_than"), until=ago("older_than"), reason=given["reason"] or "")
    events = event_filter(given["types"], given["sources"], given["attributes"])
    return Selection(tuple(given.get("positions", ())), parked, events, given["subscription"])


def _demand_choice(selection: Selection, given: Given, verb: str) -> None:
    if selection.everything and not given["all"]:
        raise Misconfigured(f"say which: positions, a filter, or --all to {verb} everything", field="--all")


VERBS = {"list": list_parked, "show": show_parked, "replay": replay, "discard": discard}


def run(verb: str, given: Given) -> int:
    return on_nats(given, VERBS[verb])
