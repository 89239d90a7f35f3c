"""What the verbs of `deadletter` do, in which order. Their words are in `headrace_cli.commands.deadletter`."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

import click

from headrace.core.delivery.parked import Parked
from headrace.core.delivery.parked import ParkedFilter as WantedParked
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import HeadraceError, Misconfigured, Unavailable
from headrace.core.http import Headers, HttpAnswer
from headrace.core.plural import counted
from headrace.io.http import HttpClient
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import channel, channels
from headrace_cli.catalog.names import ref
from headrace_cli.catalog.subscriptions import subscriptions, sunk_of
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.events.filters import event_filter
from headrace_cli.events.send import Pace
from headrace_cli.parked import items as told
from headrace_cli.parked.selection import Selection, Shelf
from headrace_cli.view import event as view
from headrace_cli.view.output import show_list
from headrace_cli.view.progress import Progress
from headrace_cli.view.units import asked_span

# So many in a row that only waiting could cure: the others would fare no better.
GIVE_UP = 5


async def show_all(session: Session, given: Given) -> int:
    if given["sunk"]:
        return await _show_sunk(session, given)
    now = datetime.now(UTC)
    items: list[dict[str, Any]] = []
    for shelf in await _shelves(session, given):
        async with aclosing(shelf.each(_chosen(given, now))) as events:
            async for one in events:
                if not given["summary"] and len(items) >= given["limit"]:
                    tell(
                        f"there are more than {counted(given['limit'], 'event')}: see --limit, or count with --summary"
                    )
                    break
                items.append(told.item(one, str(shelf.channel.ref), now))
            else:
                continue
        break
    if given["summary"]:
        items = _summary(items)
        show_list(items, given["output"], [(name.upper(), itemgetter(name)) for name in (*_SUMMED, "events")])
    else:
        columns = told.COLUMNS if given["channel"] else (told.CHANNEL, *told.COLUMNS)
        show_list(items, given["output"], columns)
    if not items and given["output"] == "table":
        tell("nothing is parked")
    return 0


async def _show_sunk(session: Session, given: Given) -> int:
    """What is counted of each Subscription; the events themselves are at the sink."""
    items, now, name = [], datetime.now(UTC), given["subscription"]
    for shelf in await _shelves(session, given):
        for one in await subscriptions(session.admin, shelf.channel):
            chosen = name is None or one.ref == ref(name, one.namespace)
            if chosen and (sunk := await sunk_of(session.admin, one)) is not None:
                items.append(told.sunk_item(one, sunk, now))
    show_list(items, given["output"], told.SUNK_COLUMNS)
    if not items and given["output"] == "table":
        tell("nothing went to a dead letter sink")
    return 0


_SUMMED = ("channel", "subscription", "reason")


def _summary(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counted = Counter(tuple(item[name] for name in _SUMMED) for item in items)
    return [
        {"name": "/".join(key[:2]), **dict(zip(_SUMMED, key, strict=True)), "events": events}
        for key, events in sorted(counted.items())
    ]


async def show_some(session: Session, given: Given) -> int:
    shelf = await _shelf(session, given)
    now, of = datetime.now(UTC), str(shelf.channel.ref)
    for number, position in enumerate(given["positions"]):
        one = await shelf.events.show(position)
        if given["output"] == "json":
            click.echo(view.line(one.event, **told.item(one, of, now)))
        else:
            click.echo(("\n" if number else "") + told.text(one, of, now), nl=False)
    return 0


async def replay_all(session: Session, given: Given) -> int:
    run = given["run"] or secrets.token_hex(4)
    where = given["to_channel"] or given["to_uri"] or "the subscribers that did not take them"
    shelf, chosen = await _shelf(session, given), _chosen(given, datetime.now(UTC))
    _demand_choice(chosen, given, "replay")
    async with AsyncExitStack() as stack:
        bring = await _bring(session, shelf, given, run, stack)
        return await _one_by_one(shelf, chosen, given, "replayed", f"to {where}, run {run}", bring)


async def _bring(
    session: Session, shelf: Shelf, given: Given, run: str, stack: AsyncExitStack
) -> Callable[[Parked], Awaitable[object]]:
    if given["to_channel"]:
        to = (await channel(session.api, ref(given["to_channel"], given["namespace"]))).ref
        return lambda one: shelf.events.replay_to_channel(one.position, run, to.namespace, to.name)
    if not given["to_uri"]:
        return lambda one: shelf.events.replay_to_subscriber(one.position, run)
    client, destination = HttpClient(), Destination(given["to_uri"])
    stack.push_async_callback(client.close)

    async def post(to: Destination, headers: Headers, body: bytes, timeout: timedelta) -> HttpAnswer:
        return await client.post(to, headers, body, timeout, 4096, reply=False)

    async def bring(one: Parked) -> None:
        answer = await shelf.events.replay_to_uri(one.position, destination, post, timedelta(seconds=60))
        if answer.status is None or not 200 <= answer.status <= 299:
            raise Unavailable(f"{given['to_uri']}: {answer.error or f'it answered {answer.status}'}")

    return bring


async def discard_all(session: Session, given: Given) -> int:
    shelf, chosen = await _shelf(session, given), _chosen(given, datetime.now(UTC))
    _demand_choice(chosen, given, "discard")
    if not given["dry_run"]:
        async with aclosing(shelf.each(chosen)) as events:
            count = len([one async for one in events])
        question = f"Delete {counted(count, 'parked event')} of {shelf.channel.ref} for good?"
        if not count or not confirmed(question, yes=given["yes"]):
            tell("nothing was discarded")
            return 0
    kept = _opened(given["save"]) if given["save"] else None

    async def discard(one: Parked) -> None:
        if kept is not None:
            whole = await shelf.events.show(one.position)
            about = told.item(whole, str(shelf.channel.ref), datetime.now(UTC))
            kept.write(f"{view.line(whole.event, **about)}\n")
            kept.flush()
        await shelf.events.discard(one.position)

    try:
        return await _one_by_one(shelf, chosen, given, "discarded", "for good", discard)
    finally:
        if kept is not None:
            kept.close()


def _opened(name: str) -> TextIO:
    try:
        return Path(name).open("a")
    except OSError as error:
        problem = f"--save {name} can't be written, and nothing was discarded: {error.strerror or error}"
        raise Misconfigured(problem, field="--save") from error


async def _one_by_one(
    shelf: Shelf, chosen: Selection, given: Given, verb: str, how: str, work: Callable[[Parked], Awaitable[object]]
) -> int:
    """The exit status; what fails is told of, and stays."""
    pace, failed, in_a_row = Pace(given.get("rate")), 0, 0
    with Progress(verb) as progress:
        try:
            async with aclosing(shelf.each(chosen)) as events:
                async for one in events:
                    if given["dry_run"]:
                        progress.step()
                        continue
                    await pace.turn()
                    try:
                        await work(one)
                    except HeadraceError as error:
                        failed += 1
                        in_a_row += 1
                        tell(f"{one.position} stays: {error}")
                        if isinstance(error, Unavailable) and in_a_row >= GIVE_UP:
                            raise
                        continue
                    in_a_row = 0
                    progress.step()
        finally:
            would = "would be " if given["dry_run"] else ""
            stay = f"; {counted(failed, 'could not be, and stays', 'could not be, and stay')}" if failed else ""
            tell(f"{counted(progress.done, 'parked event')} of {shelf.channel.ref} {would}{verb} {how}{stay}")
    return 1 if failed else 0


async def _shelf(session: Session, given: Given) -> Shelf:
    return Shelf(session, await channel(session.api, ref(given["channel"], given["namespace"])))


async def _shelves(session: Session, given: Given) -> list[Shelf]:
    if given["channel"]:
        return [await _shelf(session, given)]
    known = [each for each in await channels(session.api) if each.aside is not None]
    return [Shelf(session, each) for each in known if given["all_namespaces"] or each.namespace == given["namespace"]]


def _chosen(given: Given, now: datetime) -> Selection:
    def ago(name: str) -> datetime | None:
        text = given[name]
        return None if text is None else now - asked_span(text, f"--{name.replace('_', '-')}")

    parked = WantedParked(since=ago("newer_than"), until=ago("older_than"), reason=given["reason"] or "")
    events = event_filter(given["types"], given["sources"], given["attributes"])
    return Selection(tuple(given.get("positions", ())), parked, events, given["subscription"])


def _demand_choice(chosen: Selection, given: Given, verb: str) -> None:
    if chosen.everything and not given["all"]:
        raise Misconfigured(f"say which: positions, a filter, or --all to {verb} everything", field="--all")
