"""The words of `hand-back`."""

from __future__ import annotations

import click

from headrace_cli.commands import params
from headrace_cli.commands.rules import Given, Unless
from headrace_cli.commands.sessions import cluster, in_cluster, on_nats

HELP = """\
Give channels back to the Go channel's controller, while events flow: each Subscription gets the consumer that it would
have made, which goes on behind the last settled event, and our marks are taken away. No event is lost; those that were
settled above that one come again. It may be interrupted, and done again.

Stop the operator before, or it takes them over again. It refuses while one is at work, or a consumer is served.

examples:
  kn jetstream hand-back shop/orders --dry-run
  kn jetstream hand-back -A --yes
  kn jetstream hand-back -A --cluster              asks the channels' objects whether consumerType is Pull
"""


def _hand_back(_: str, given: Given) -> int:
    from headrace_cli.commands.actions import hand_back

    objects = cluster(given) if in_cluster(given) else None
    return on_nats(given, lambda session, given: hand_back.hand_back(session, given, objects))


COMMAND = params.verb(
    "hand-back",
    _hand_back,
    params.Words(HELP, "Give channels back to the Go channel."),
    click.Argument(["channel"], metavar="CHANNEL", required=False),
    params.flag("--pull", "Their consumerType is Pull; with --cluster, the objects say it."),
    params.flag("--force", "Also while an operator is at work or a consumer is served."),
    params.dry_run(),
    params.yes(),
    every=True,
    objects=True,
    obeys=[
        Unless(
            "pull",
            lambda given: not in_cluster(given),
            "is said by the channels' objects with --cluster: leave out one of the two",
        )
    ],
)
