"""`channel`: the words of its verbs. What they show is `headrace_cli.catalog.listing`'s."""

from __future__ import annotations

import click

from headrace.core.errors import Misconfigured
from headrace.core.quoting import quoted
from headrace_cli.commands import params
from headrace_cli.commands.rules import NO_NATS_WITH_CLUSTER, Given

LIST = """\
List the channels: those whose streams NATS holds, Headrace's, adopted streams, and those of the Go channel (origin
`peer`); of a `headrace up` also those that could not be made, and why. With --cluster: the NatsJetStreamChannel objects
of a cluster, with their conditions and addresses.

examples:
  kn jetstream channel list -A
  kn jetstream channel list -n shop -o name
  kn jetstream channel list --cluster -A
  kn jetstream channel list -A -o json | jq '.items[] | select(.parked > 0)'
"""

DESCRIBE = """\
Show one channel: its stream and contents, its limits, and its Subscriptions; of a `headrace up` also its conditions,
such as NATS' refusal of an edit. With --cluster: the object's conditions and subscribers.

examples:
  kn jetstream channel describe orders -n shop
  kn jetstream channel describe shop/orders -o yaml
  kn jetstream channel describe shop/orders --cluster
"""


CREATE = """\
Create a channel. With --cluster it is an object that Headrace's operator serves. Without, its streams are made in NATS
as the operator would make them, for NATS alone; a `headrace up` has files for that.

examples:
  kn jetstream channel create orders -n shop --cluster --replicas 3 --max-age 168h
  kn jetstream channel create orders --max-bytes 1073741824 --discard New
  kn jetstream channel create orders --stream LEGACY --dry-run > orders.yaml
"""

DELETE = """\
Delete a channel with its stream and its events. It says how many and whose before it asks. Parked events stay in the
aside stream.

examples:
  kn jetstream channel delete orders -n shop --cluster
  kn jetstream backup orders ./orders && kn jetstream channel delete orders --yes
"""


def _run(verb: str, given: Given) -> int:
    from headrace_cli.commands.actions import channel

    return channel.run(verb, given)


def _annotations(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    wrong = next((text for text in given if "=" not in text), None)
    if wrong is not None:
        raise Misconfigured(f"--annotation is {quoted(wrong)}: give name=value", field="--annotation")
    return dict(text.split("=", 1) for text in given)


_STREAM: list[click.Parameter] = [
    params.number("--replicas", "Copies of the stream.", least=1, most=5),
    params.choice("--storage", ("File", "Memory"), "Where the stream is kept."),
    params.choice("--retention", ("Limits", "Interest", "Work"), "How long events are kept."),
    params.choice("--discard", ("Old", "New"), "What is dropped when it is full: old events, or new ones."),
    params.value("--max-age", "SPAN", "How long events are kept, as 168h."),
    click.Option(["--max-bytes"], type=int, metavar="N", help="How many bytes the stream may hold."),
    click.Option(["--max-messages"], type=int, metavar="N", help="How many events it may hold."),
    params.value("--duplicate-window", "SPAN", "How long a repeated event is recognised, as 2m."),
    params.value(
        "--stream",
        "NAME",
        "Use this stream, which may exist (overrideName); in a cluster the list of tenants has to allow it.",
    ),
]

GROUP = click.Group(
    "channel",
    help="List, describe, create and delete channels.",
    commands=[
        params.verb(
            "list",
            _run,
            params.Words(LIST, "List channels."),
            every=True,
            objects=True,
            formats=("table", "json", "yaml", "name"),
            obeys=[NO_NATS_WITH_CLUSTER],
        ),
        params.verb(
            "describe",
            _run,
            params.Words(DESCRIBE, "Show one channel."),
            params.channel(),
            objects=True,
            formats=("table", "json", "yaml", "name"),
            obeys=[NO_NATS_WITH_CLUSTER],
        ),
        params.verb(
            "create",
            _run,
            params.Words(CREATE),
            params.channel(),
            *_STREAM,
            click.Option(
                ["--annotation", "annotations"],
                multiple=True,
                metavar="NAME=VALUE",
                callback=_annotations,
                help="An annotation, as headrace.dev/delivery-order=ordered. Repeatable.",
            ),
            params.flag("--dry-run", "Only print the manifest; with --cluster its API server judges it."),
            objects=True,
            formats=("yaml", "json"),
            obeys=[NO_NATS_WITH_CLUSTER],
        ),
        params.verb(
            "delete",
            _run,
            params.Words(DELETE, "Delete a channel and its events."),
            params.channel(),
            params.yes(),
            objects=True,
            obeys=[NO_NATS_WITH_CLUSTER],
        ),
    ],
)
