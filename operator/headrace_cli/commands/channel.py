"""`channel`: the words of its verbs, and what they show."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from headrace_cli.catalog.names import ref
from headrace_cli.commands import params
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import on_nats, tell

if TYPE_CHECKING:
    from headrace_cli.access.session import Session
    from headrace_cli.catalog.channels import Channel

LIST = """\
List the channels: those whose streams NATS holds, Headrace's, adopted streams, and those of the Go channel (origin
`peer`).
"""

LIST_EXAMPLES = params.examples("""\
  kn jetstream channel list -A
  kn jetstream channel list -n shop -o name
  kn jetstream channel list -A -o json | jq '.items[] | select(.parked > 0)'
""")

DESCRIBE = """\
Show one channel: its stream, what it holds, its limits, and its Subscriptions.
"""

DESCRIBE_EXAMPLES = params.examples("""\
  kn jetstream channel describe orders -n shop
  kn jetstream channel describe shop/orders -o yaml
""")


def _list(**given: Any) -> int:
    return on_nats(given, lambda session: _show_all(session, given))


def _describe(**given: Any) -> int:
    return on_nats(given, lambda session: _show_one(session, given))


async def _show_all(session: Session, given: Given) -> int:
    from headrace_cli.catalog import tell as told
    from headrace_cli.catalog.channels import channels
    from headrace_cli.view.output import show_list

    everywhere, namespace = given["all_namespaces"], given["namespace"]
    known = await channels(session.api)
    chosen = [channel for channel in known if everywhere or channel.namespace == namespace]
    now = datetime.now(UTC)
    items = [await _item(session, channel, now) for channel in chosen]
    columns = ((told.NAMESPACE,) if everywhere else ()) + told.CHANNEL_COLUMNS
    show_list(items, given["output"], columns)
    if not chosen and given["output"] == "table":
        where = "in this NATS" if everywhere else f"in namespace {namespace}"
        others = f"; {len(known)} are in others: add -A" if known else ""
        tell(f"there are no channels {where}{others}")
    return 0


async def _show_one(session: Session, given: Given) -> int:
    from headrace_cli.catalog import tell as told
    from headrace_cli.catalog.channels import channel
    from headrace_cli.catalog.subscriptions import subscriptions
    from headrace_cli.view.output import show_one

    now = datetime.now(UTC)
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    item = await _item(session, found, now)
    each = [told.subscription_item(one, now) for one in await subscriptions(session.admin, found)]
    whole = {**item, "subscriptions": each} if given["output"] != "table" else item
    show_one(whole, given["output"], lambda item: told.channel_text(item, each))
    return 0


async def _item(session: Session, channel: Channel, now: datetime) -> dict[str, Any]:
    from headrace.core import names
    from headrace_cli.catalog.tell import channel_item

    parked = 0 if channel.aside is None else await session.admin.count(channel.aside_name, names.parked_subjects())
    consumers = int(channel.info["state"].get("consumer_count", 0))
    return channel_item(channel, consumers, parked, now)


GROUP = click.Group(
    "channel",
    help="List, describe, create and delete channels.",
    commands=[
        click.Command(
            "list",
            callback=_list,
            help=LIST,
            epilog=LIST_EXAMPLES,
            params=[*params.namespace(every=True), *params.nats(), params.output("table", "json", "yaml", "name")],
        ),
        click.Command(
            "describe",
            callback=_describe,
            help=DESCRIBE,
            epilog=DESCRIBE_EXAMPLES,
            params=[
                params.channel(),
                *params.namespace(),
                *params.nats(),
                params.output("table", "json", "yaml", "name"),
            ],
        ),
    ],
)
