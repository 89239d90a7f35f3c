"""What `tail` and `peek` do: they print stored events as they come, or as they lie there."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime

from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import MessageReader, StreamMessage
from headrace_cli.catalog.channels import channel
from headrace_cli.commands.console import show, tell
from headrace_cli.commands.params import channel_of
from headrace_cli.commands.rules import Given
from headrace_cli.commands.sessions import on_nats
from headrace_cli.events import watch
from headrace_cli.events.filters import event_filter
from headrace_cli.events.watch import Start
from headrace_cli.view import event as event_view
from headrace_cli.view.units import asked_moment, stamp


async def tail(session: Session, given: Given) -> int:
    start, wanted = _start(given), event_filter(given["types"], given["sources"], given["attributes"])
    reader = await _reader(session, given)
    if given["output"] == "table":
        tell(f"watching {given['channel']}; Ctrl-C ends it")
    left = given["count"]
    async with aclosing(watch.tail(reader, start, wanted)) as events:
        async for each in events:
            _print(each, given["output"])
            left = left and left - 1
            if left == 0:
                break
    return 0


async def peek(session: Session, given: Given) -> int:
    start, wanted = _start(given), event_filter(given["types"], given["sources"], given["attributes"])
    if start == Start():
        start = Start(last=min(10, given["limit"]))
    reader, found = await _reader(session, given), 0
    async with aclosing(watch.peek(reader, start, wanted, given["limit"])) as events:
        async for each in events:
            _print(each, given["output"])
            found += 1
    if not found:
        extent = await reader.extent()
        held = "is empty" if extent.last < max(1, extent.first) else f"holds sequences {extent.first} to {extent.last}"
        tell(f"nothing is there: the stream {held}")
    return 0


async def _reader(session: Session, given: Given) -> MessageReader:
    return MessageReader(session.api, (await channel(session.api, channel_of(given))).stream)


def _start(given: Given) -> Start:
    since = None if given["since"] is None else asked_moment(given["since"], datetime.now(UTC), "--since")
    return Start(given["sequence"], since, given["last"])


def _print(stored: StreamMessage, output: str) -> None:
    if output == "json":
        about = {"stream": stored.stream, "sequence": stored.sequence, "stored": stamp(stored.time)}
        show(f"{event_view.line(stored.event, **about)}\n")
        return
    # A reader should know that the event is a replay for one consumer only.
    only = stored.headers.get("headrace-only")
    marks = {"replay for": only} if only else {}
    show(event_view.pretty(stored.event, f"#{stored.sequence}  {stamp(stored.time)}", about=marks) + "\n")


VERBS = {"tail": tail, "peek": peek}


def run(verb: str, given: Given) -> int:
    return on_nats(given, VERBS[verb])
