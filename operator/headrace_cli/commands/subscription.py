"""`subscription`: the words of its verbs, and what they show."""

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
    from headrace_cli.catalog.subscriptions import Subscription

LIST = """\
List Subscriptions, with what waits for each: PENDING events were not handed out yet, UNSETTLED ones are in the
subscriber's hands or wait for their retry.
"""

LIST_EXAMPLES = params.examples("""\
  kn jetstream subscription list -A
  kn jetstream subscription list --channel shop/orders
  kn jetstream subscription list -A -o json | jq '.items[] | select(.pending > 1000) | .name'
""")

DESCRIBE = """\
Show one Subscription: where its events go, how they are retried, how far it has got. A consumer's name does, too.
"""

DESCRIBE_EXAMPLES = params.examples("""\
  kn jetstream subscription describe billing -n shop
  kn jetstream subscription describe shop/billing -o yaml
""")


def _list(**given: Any) -> int:
    return on_nats(given, lambda session: _show_all(session, given))


def _describe(**given: Any) -> int:
    return on_nats(given, lambda session: _show_one(session, given))


async def found(session: Session, given: Given) -> Subscription:
    """The Subscription that a verb's arguments name; raises Refused without exactly one."""
    from headrace_cli.catalog.subscriptions import all_subscriptions, the_one

    of = ref(given["channel"], given["namespace"]) if given["channel"] else None
    known = await all_subscriptions(session.api, session.admin, of)
    return the_one(known, given["subscription"], given["namespace"])


async def _show_all(session: Session, given: Given) -> int:
    from headrace_cli.catalog import tell as told
    from headrace_cli.catalog.subscriptions import all_subscriptions
    from headrace_cli.view.output import show_list

    everywhere, namespace = given["all_namespaces"], given["namespace"]
    of = ref(given["channel"], namespace) if given["channel"] else None
    known = await all_subscriptions(session.api, session.admin, of)
    chosen = [one for one in known if everywhere or of is not None or one.namespace == namespace]
    now = datetime.now(UTC)
    columns = ((told.NAMESPACE,) if everywhere else ()) + told.SUBSCRIPTION_COLUMNS
    show_list([told.subscription_item(one, now) for one in chosen], given["output"], columns)
    if not chosen and given["output"] == "table":
        others = f"; {len(known)} are in other namespaces: add -A" if known else ""
        tell(f"there are no Subscriptions{others}")
    return 0


async def _show_one(session: Session, given: Given) -> int:
    from headrace_cli.catalog import tell as told
    from headrace_cli.view.output import show_one

    item = told.subscription_item(await found(session, given), datetime.now(UTC))
    show_one(item, given["output"], told.subscription_text)
    return 0


GROUP = click.Group(
    "subscription",
    help="List, describe, pause, resume and reset Subscriptions.",
    commands=[
        click.Command(
            "list",
            callback=_list,
            help=LIST,
            epilog=LIST_EXAMPLES,
            params=[
                click.Option(["--channel"], metavar="CHANNEL", help="Only those of this channel."),
                *params.namespace(every=True),
                *params.nats(),
                params.output("table", "json", "yaml", "name"),
            ],
        ),
        click.Command(
            "describe",
            callback=_describe,
            help=DESCRIBE,
            epilog=DESCRIBE_EXAMPLES,
            params=[
                *params.subscription(),
                *params.namespace(),
                *params.nats(),
                params.output("table", "json", "yaml", "name"),
            ],
        ),
    ],
)
