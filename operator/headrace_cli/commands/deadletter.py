"""The words of `deadletter` and its verbs."""

from __future__ import annotations

import click

from headrace_cli.commands import params
from headrace_cli.commands.rules import NO_RUN_TO_AN_ADDRESS, Given, Unless, one_of

LIST = """\
List parked events: those that could be delivered neither to their subscriber nor to a dead letter sink, with the
reason. Without a channel: those of all channels of the namespace, or of all with -A.

With --sunk: how many events dead letter sinks took in the place of subscribers, by Subscription, with the last answer.
Those events are at the sink, and not kept here.

examples:
  kn jetstream deadletter list -A --summary              how many, by channel, Subscription and reason
  kn jetstream deadletter list -A --sunk                 what went to dead letter sinks
  kn jetstream deadletter list orders --reason 'status 503' --older-than 1h
  kn jetstream deadletter list shop/orders --subscription billing --type 'shop.*' -o json
"""

SHOW = """\
Show parked events in full: the event, whom it was for, how often it was tried and why it was given up.

examples:
  kn jetstream deadletter show orders 17
  kn jetstream deadletter show shop/orders 17 18 -o json | jq .event.data
"""

REPLAY = """\
Replay parked events, by position or by filter, or all of them with --all: each to the one subscriber that did not take
it, to another channel with --to-channel, or to an address with --to-uri. A replayed event has a fresh budget of
retries, and is parked no more; one that can't be replayed stays, and the others go on.

After an interruption the same command goes on where it was: replayed events are gone from the list. With the same --run
nothing is stored twice.

examples:
  kn jetstream deadletter replay orders --all --rate 50
  kn jetstream deadletter replay orders 17 18
  kn jetstream deadletter replay shop/orders --subscription billing --reason 'status 503' --dry-run
  kn jetstream deadletter replay orders --type shop.order --to-channel repaired
  kn jetstream deadletter replay orders 17 --to-uri http://127.0.0.1:9000/
"""

DISCARD = """\
Delete parked events for good, by position or by filter, or all of them with --all. With --save FILE each is written
there before, as a line that `send -f FILE` takes.

examples:
  kn jetstream deadletter discard orders 17
  kn jetstream deadletter discard orders --older-than 30d --save old-orders.jsonl
  kn jetstream deadletter discard orders --all --yes
"""


def _run(verb: str, given: Given) -> int:
    from headrace_cli.commands.actions import deadletter

    return deadletter.run(verb, given)


_FILTERS: list[click.Parameter] = [
    params.value("--subscription", "NAME", "Only those that this Subscription did not take."),
    params.value("--reason", "TEXT", "Only those with this in their reason."),
    params.value("--older-than", "SPAN", "Only those parked longer ago: 90s, 10m, 2h, 3d."),
    params.value("--newer-than", "SPAN", "Only those parked since then."),
    *params.event_filters(),
]
_POSITIONS = click.Argument(["positions"], nargs=-1, type=click.IntRange(1), metavar="[POSITION]...")
_ALL = params.flag("--all", "All that are parked.")
_FILTER_NAMES = ("subscription", "reason", "older_than", "newer_than", "types", "sources", "attributes")
_CHOICE_RULES = [
    *(
        Unless(
            name,
            lambda given: not given["positions"],
            "chooses among all that are parked, and positions are given: leave out one of the two",
        )
        for name in _FILTER_NAMES
    ),
    Unless(
        "all",
        lambda given: not given["positions"] and not any(given[name] for name in _FILTER_NAMES),
        "is all that is parked, and a part is chosen by position or filter: leave out one of the two",
    ),
]

GROUP = click.Group(
    "deadletter",
    help="List, show, replay and discard events that could be delivered nowhere.",
    short_help="Events that could be delivered nowhere.",
    commands=[
        params.verb(
            "list",
            _run,
            params.Words(LIST, "List parked events, with the reason."),
            click.Argument(["channel"], required=False, metavar="[CHANNEL]"),
            *_FILTERS,
            params.flag("--sunk", "Count the events that dead letter sinks took, by Subscription."),
            params.flag("--summary", "Only how many, by channel, Subscription and reason."),
            params.number("--limit", "At most so many.", least=1, default=100),
            every=True,
            formats=("table", "json", "yaml", "name"),
            obeys=[
                *(
                    Unless(name, lambda given: not given["sunk"], "is of parked events, and --sunk lists none")
                    for name in (*_FILTER_NAMES, "summary", "limit")
                    if name != "subscription"
                ),
                Unless(
                    "limit",
                    lambda given: not given["summary"],
                    "is for a list, and --summary counts all: leave out one of the two",
                ),
            ],
        ),
        params.verb(
            "show",
            _run,
            params.Words(SHOW, "Show parked events in full, with the answers."),
            params.channel(),
            click.Argument(["positions"], nargs=-1, required=True, type=click.IntRange(1), metavar="POSITION..."),
            formats=("table", "json"),
        ),
        params.verb(
            "replay",
            _run,
            params.Words(REPLAY, "Deliver them again."),
            params.channel(),
            _POSITIONS,
            _ALL,
            *_FILTERS,
            params.value("--to-channel", "CHANNEL", "To all Subscriptions of this channel."),
            params.address("--to-uri", "To this address, by one POST each."),
            params.rate(),
            params.value("--run", "NAME", "The name of an interrupted replay, to go on with it."),
            params.dry_run(),
            obeys=[*_CHOICE_RULES, NO_RUN_TO_AN_ADDRESS, *one_of("to_channel", "to_uri", says="where to")],
        ),
        params.verb(
            "discard",
            _run,
            params.Words(DISCARD, "Delete them for good."),
            params.channel(),
            _POSITIONS,
            _ALL,
            *_FILTERS,
            params.value("--save", "FILE", "Write them there before; the contents of FILE are kept."),
            params.dry_run(),
            params.yes(),
            obeys=_CHOICE_RULES,
        ),
    ],
)
