"""`tail` and `peek`: their words, and how what they find is printed."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from headrace_cli.catalog.names import ref
from headrace_cli.commands import params
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import on_nats, tell
from headrace_cli.commands.unused import one_of

if TYPE_CHECKING:
    from headrace_cli.access.session import Session
    from headrace_cli.access.stream_reader import Reader, Stored
    from headrace_cli.events.filters import EventFilter
    from headrace_cli.events.watch import Start

TAIL = """\
Watch the events of a channel as they are stored, until Ctrl-C.

Nobody is disturbed: no consumer is made, no position moves, and the stream keeps or drops its events as if nobody
looked. Filters take * and ?.
"""

TAIL_EXAMPLES = params.examples("""\
  kn jetstream tail orders                                  what comes from now on
  kn jetstream tail shop/orders --since 10m --type 'shop.*'
  kn jetstream tail orders --attribute tenant=a -o json | jq .event.data
  kn jetstream tail orders --last 5 --count 20              the last 5, and 15 more
""")

PEEK = """\
Read events that lie in a channel's stream, by sequence or by time, without disturbing anyone: no consumer is made,
and what you read counts as delivered to nobody.

Without a start it shows the last ten. An event that every subscriber has taken may be gone, where the channel's
stream does not keep it (retention Interest or WorkQueue).
"""

PEEK_EXAMPLES = params.examples("""\
  kn jetstream peek orders                             the last ten
  kn jetstream peek orders --sequence 4711             this one and the nine behind it
  kn jetstream peek orders --since 2026-01-31T09:00:00Z --limit 100 --type shop.order
  kn jetstream peek orders --since 1h --source /shop -o json
""")


def _tail(**given: Any) -> int:
    return on_nats(given, lambda session: _watch(session, given))


def _peek(**given: Any) -> int:
    return on_nats(given, lambda session: _read(session, given))


async def _watch(session: Session, given: Given) -> int:
    from headrace_cli.events import watch

    reader, start, wanted = await _asked(session, given)
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


async def _read(session: Session, given: Given) -> int:
    from headrace_cli.events import watch

    reader, start, wanted = await _asked(session, given)
    found = 0
    async with aclosing(watch.peek(reader, start, wanted, given["limit"])) as events:
        async for each in events:
            _print(each, given["output"])
            found += 1
    if not found:
        extent = await reader.extent()
        held = "is empty" if extent.last < max(1, extent.first) else f"holds sequences {extent.first} to {extent.last}"
        tell(f"nothing is there: the stream {held}")
    return 0


async def _asked(session: Session, given: Given) -> tuple[Reader, Start, EventFilter]:
    from headrace_cli.access.stream_reader import Reader
    from headrace_cli.catalog.channels import channel
    from headrace_cli.events.filters import event_filter

    start = _start(given)
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    filters = event_filter(given["types"], given["sources"], given["attributes"])
    return Reader(session.api, found.stream), start, filters


def _start(given: Given) -> Start:
    from headrace_cli.events.watch import Start
    from headrace_cli.view.units import asked_moment

    since = None if given["since"] is None else asked_moment(given["since"], datetime.now(UTC), "--since")
    if "limit" in given and all(given[name] is None for name in ("sequence", "since", "last")):
        return Start(last=min(10, given["limit"]))
    return Start(given["sequence"], since, given["last"])


def _print(stored: Stored, output: str) -> None:
    from headrace_cli.view import event as view
    from headrace_cli.view.units import stamp

    found = stored.event
    if output == "json":
        about = {"stream": stored.stream, "sequence": stored.sequence, "stored": stamp(stored.time)}
        click.echo(view.line(found, **about))
        return
    click.echo(view.pretty(found, f"#{stored.sequence}  {stamp(stored.time)}", about=_marks(stored)))


def _marks(stored: Stored) -> dict[str, str]:
    """What else a reader should know of it."""
    only = stored.headers.get("headrace-only")
    return {"replay for": only} if only else {}


def _starts(last: str) -> list[click.Parameter]:
    return [
        click.Option(["--sequence"], type=click.IntRange(1), metavar="N", help="Begin at this sequence of the stream."),
        click.Option(["--since"], metavar="TIME", help="Begin at what was stored then: RFC 3339, or 10m, 2h, 3d ago."),
        click.Option(["--last"], type=click.IntRange(0), metavar="N", help=last),
    ]


_ONE_START = one_of("sequence", "since", "last", says="where to begin")

TAIL_COMMAND = params.verb(
    "tail",
    _tail,
    params.Words(TAIL, TAIL_EXAMPLES, "Watch events as they come."),
    params.channel(),
    *_starts("Begin with the last so many. Default: with what comes next."),
    *params.wanted(),
    click.Option(["--count"], type=click.IntRange(1), metavar="N", help="End after so many."),
    formats=("table", "json"),
    rules=_ONE_START,
)

PEEK_COMMAND = params.verb(
    "peek",
    _peek,
    params.Words(PEEK, PEEK_EXAMPLES, "Read stored events, leaving no trace."),
    params.channel(),
    *_starts("Begin with the last so many."),
    *params.wanted(),
    click.Option(
        ["--limit"], type=click.IntRange(1), default=10, metavar="N", show_default=True, help="At most so many."
    ),
    formats=("table", "json"),
    rules=_ONE_START,
)
