"""The words of `send`, and which of its options go together."""

from __future__ import annotations

import click

from headrace.core.errors import Misconfigured
from headrace_cli.commands import params
from headrace_cli.commands.params import channel_of
from headrace_cli.commands.rules import Given, Unless, is_given, spell
from headrace_cli.commands.sessions import on_nats

HELP = """\
Send events to a channel.

One event from options, its data from --data, --field, or standard input with --data -. Or many with -f: a file (or -
for standard input) with an event in CloudEvents' JSON format, or one on each line; lines that `tail -o json`
prints will do.

An event is its source and its id: the same two again within the stream's duplicate window (2 minutes, unless the
channel says otherwise) are the same event, and stored once. Without --id each event gets a new id, with --count each
one of its own. Those of a file keep theirs, so that a broken-off run can be repeated; --new-ids gives them new ones.

They go over HTTP to a `headrace up` that runs here, or to --url; else straight into the channel's stream, as the
receiver would store them.

examples:
  kn jetstream send orders --type shop.order --data '{"items": 3}'
  kn jetstream send shop/orders --type shop.order --field items=3 --field customer.name=Ann --extension tenant=a
  kn jetstream send orders --type load.test --data x --count 1000 --rate 100
  kn jetstream peek orders --last 10 -o json | kn jetstream send copies -f -
  kn jetstream send orders -f events.jsonl --new-ids              the same events once more, as new ones
  kn jetstream send orders --type t --data hi --url http://receive.example.com/shop/orders --mode structured
"""

# The options that describe the single event of --type, and would be ignored with a file.
OF_ONE = ("source", "id", "subject", "dataschema", "named", "data", "fields", "content_type", "count")


def _send(_: str, given: Given) -> int:
    if bool(given["file"]) == bool(given["type"]):
        raise Misconfigured("give an event with --type, or events with -f: one of the two", field="--type")
    _refuse_unused(given)
    channel = channel_of(given)

    from headrace_cli.commands.actions import send

    events = send.events_of(given)
    if given["url"]:
        return send.to_url(given, channel, events)
    return on_nats(given, lambda session, given: send.to_channel(session, given, channel, events))


def _refuse_unused(given: Given) -> None:
    if given["type"] and given["new_ids"]:
        raise Misconfigured(
            "--new-ids is for -f: an event of --type has a new id unless --id says one", field="--new-ids"
        )
    unused = next((option for option in OF_ONE if given["file"] and is_given(option)), None)
    if unused is not None:
        name = spell(click.get_current_context().command, unused)
        raise Misconfigured(f"{name} is for an event of --type: those of -f say it themselves", field=name)


def _named(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    from headrace_cli.events.filters import pairs

    return pairs(given, "--extension")


COMMAND = params.verb(
    "send",
    _send,
    params.Words(HELP, "Send events to a channel."),
    params.channel(),
    params.value("--type", "TYPE", "Type of the event."),
    params.value("--source", "URI", "Its source.", default="/kn-jetstream"),
    params.value("--id", "ID", "Its id. Default: a new UUID, for each of --count."),
    params.value("--subject", "TEXT", "Its subject."),
    params.value("--dataschema", "URI", "Its dataschema."),
    click.Option(
        ["-e", "--extension", "named"],
        multiple=True,
        metavar="NAME=VALUE",
        callback=_named,
        help="A further attribute. Repeatable.",
    ),
    params.value("-d --data", "TEXT", "Its data; @FILE reads a file, - standard input."),
    params.value(
        "--field fields",
        "PATH=VALUE",
        "A field of JSON data, as order.items=3; instead of --data. Repeatable.",
        multiple=True,
    ),
    params.value("--content-type", "TYPE", "Of the data. Default: JSON, text or bytes, as they look."),
    params.value("-f --file", "FILE", "Events as JSON, one or one a line; - is standard input."),
    params.flag("--new-ids", "Give the events of -f new ids."),
    params.number("--count", "So many such events.", least=1, default=1),
    params.rate(),
    params.choice("--mode", ("binary", "structured"), "CloudEvents' content mode.", default="binary"),
    params.choice(
        "--via", ("auto", "http", "nats"), "auto: HTTP where a receiver is known, else NATS.", default="auto"
    ),
    params.address("--url", "POST there, without asking NATS."),
    formats=("table", "json"),
    obeys=[
        Unless("fields", lambda given: given["data"] is None, "makes the data, and so does --data: give one"),
        Unless("nats", lambda given: not given["url"], "is not asked with --url: leave out one of the two"),
        Unless(
            "via",
            lambda given: not given["url"] or given["via"] != "nats",
            "nats does not go to a --url: leave out one of the two",
        ),
    ],
)
