"""The words of `tail` and `peek`."""

from __future__ import annotations

import click

from headrace_cli.commands import params
from headrace_cli.commands.rules import Given, one_of

TAIL = """\
Watch the events of a channel as they are stored, until Ctrl-C.

Nobody is disturbed: no consumer is made, no position moves, and the stream keeps or drops its events as if nobody
looked. Filters take * and ?.

examples:
  kn jetstream tail orders                                  what comes from now on
  kn jetstream tail shop/orders --since 10m --type 'shop.*'
  kn jetstream tail orders --attribute tenant=a -o json | jq .event.data
  kn jetstream tail orders --last 5 --count 20              the last 5, and 15 more
"""

PEEK = """\
Read events that lie in a channel's stream, by sequence or by time, without disturbing anyone: no consumer is made,
and what you read counts as delivered to nobody.

Without a start it shows the last ten. An event that every subscriber has taken may be gone, where the channel's
stream does not keep it (retention Interest or WorkQueue).

examples:
  kn jetstream peek orders                             the last ten
  kn jetstream peek orders --sequence 4711             this one and the nine behind it
  kn jetstream peek orders --since 2026-01-31T09:00:00Z --limit 100 --type shop.order
  kn jetstream peek orders --since 1h --source /shop -o json
"""


def _run(verb: str, given: Given) -> int:
    from headrace_cli.commands.actions import look

    return look.run(verb, given)


def _starts(last: str) -> list[click.Parameter]:
    return [
        params.number("--sequence", "Begin at this sequence of the stream.", least=1),
        params.value("--since", "TIME", "Begin with the first event since then: RFC 3339, or 10m, 2h, 3d ago."),
        params.number("--last", last, least=0),
    ]


_ONE_START = one_of("sequence", "since", "last", says="where to begin")

TAIL_COMMAND = params.verb(
    "tail",
    _run,
    params.Words(TAIL, "Watch events as they come."),
    params.channel(),
    *_starts("Begin with the last so many. Default: with the next event."),
    *params.event_filters(),
    params.number("--count", "End after so many.", least=1),
    formats=("table", "json"),
    obeys=_ONE_START,
)

PEEK_COMMAND = params.verb(
    "peek",
    _run,
    params.Words(PEEK, "Read stored events, leaving no trace."),
    params.channel(),
    *_starts("Begin with the last so many."),
    *params.event_filters(),
    params.number("--limit", "At most so many.", least=1, default=10),
    formats=("table", "json"),
    obeys=_ONE_START,
)
