"""The words of `subscription` and its verbs."""

from __future__ import annotations

from functools import partial

import click

from headrace_cli.commands import params
from headrace_cli.commands.rules import NO_NATS_WITH_CLUSTER, Given, Unless, obeying, of_namespaces, one_of

LIST = """\
List Subscriptions, each with its waiting events: PENDING events were not handed out yet, UNSETTLED ones are in the
subscriber's hands or wait for their retry. With --cluster: the Subscription objects of a cluster, with conditions.

examples:
  kn jetstream subscription list -A
  kn jetstream subscription list --channel shop/orders
  kn jetstream subscription list --cluster -n shop
  kn jetstream subscription list -A -o json | jq '.items[] | select(.pending > 1000) | .name'
"""

DESCRIBE = """\
Show one Subscription: where its events go, how they are retried, how far it has got. A consumer's name does, too.

examples:
  kn jetstream subscription describe billing -n shop
  kn jetstream subscription describe shop/billing -o yaml
"""


CREATE = """\
Write the manifest of a Subscription: for a file of `headrace up`, or for kubectl. With --cluster the object is made.

In a cluster `kn subscription create` does this, too, and takes Services and other objects as --sink; this verb takes
addresses only, but can set retries.

examples:
  headrace subscription create billing --channel orders --uri http://127.0.0.1:9090/ --retry 3 > billing.yaml
  kn jetstream subscription create billing -n shop --channel orders --uri http://billing.shop.svc --cluster
  kn subscription create billing -n shop --channel messaging.knative.dev:v1alpha1:NatsJetStreamChannel:orders \\
    --sink ksvc:billing
"""

PAUSE = """\
Hand out no more events to a subscriber; they wait in the stream. Events in its hands are finished.

examples:
  kn jetstream subscription pause billing -n shop --for 1h
  kn jetstream subscription pause shop/billing                     until it is resumed
"""

RESUME = """\
Go on with a Subscription that was paused.

examples:
  kn jetstream subscription resume billing -n shop
"""

RESET = """\
Move the position of a Subscription: back, to have events delivered again, or forward, to skip some. It says how many
before it asks. Deliveries that are under way are given up.

To bring some events again and leave the position, use `replay`.

examples:
  kn jetstream subscription reset billing --to-time 2h --dry-run
  kn jetstream subscription reset shop/billing --to-sequence 4711
  kn jetstream subscription reset billing --all                    everything that the stream holds
  kn jetstream subscription reset billing --new --yes              nothing of what is there
"""

DELETE = """\
Delete the consumer that serves a Subscription, or one that nobody uses: on an Interest or WorkQueue stream it keeps
events. Of a Subscription that still exists the operator makes it again.

examples:
  kn jetstream subscription delete KN_SUB_5D0A2F1C -n shop --channel orders
"""


def _run(verb: str, given: Given) -> int:
    from headrace_cli.commands.actions import subscription

    return subscription.run(verb, given)


_NO_RETRY = "is about retries, and there are none: give --retry, too"
_CREATE_RULES = [
    Unless("backoff_delay", lambda given: given["retry"], _NO_RETRY),
    Unless("backoff_policy", lambda given: given["retry"], _NO_RETRY),
    *of_namespaces("subscription", every=False),
]

GROUP = click.Group(
    "subscription",
    help="List, describe, create, pause, resume, reset and delete Subscriptions.",
    short_help="See, pause and reset Subscriptions.",
    commands=[
        params.verb(
            "list",
            _run,
            params.Words(LIST, "List Subscriptions, and what waits for each."),
            params.value("--channel", "CHANNEL", "Only those of this channel."),
            every=True,
            objects=True,
            formats=("table", "json", "yaml", "name"),
            obeys=[NO_NATS_WITH_CLUSTER],
        ),
        params.verb(
            "describe",
            _run,
            params.Words(DESCRIBE, "Show one Subscription."),
            *params.subscription(),
            formats=("table", "json", "yaml", "name"),
        ),
        params.Words(CREATE, "Write the manifest of one.").command(
            "create",
            obeying(partial(_run, "create"), _CREATE_RULES),
            [
                click.Argument(["subscription"], metavar="SUBSCRIPTION"),
                params.value("--channel", "CHANNEL", "Its channel, of the same namespace.", required=True),
                params.value("--uri", "URI", "Where its events go."),
                params.value("--reply-uri", "URI", "Where events go that its subscriber answers with."),
                params.value("--dead-letter-uri", "URI", "Where events go that can't be delivered."),
                params.number("--retry", "Attempts after the first one.", least=0),
                params.value("--backoff-delay", "DURATION", "Before the first retry. Default: PT0.2S."),
                params.choice(
                    "--backoff-policy",
                    ("exponential", "linear"),
                    "How the delay grows from retry to retry. Default: exponential.",
                ),
                params.value("--timeout", "DURATION", "Of one attempt, as PT30S."),
                *params.namespace(),
                *params.cluster(),
                params.output("yaml", "json"),
            ],
        ),
        params.verb(
            "pause",
            _run,
            params.Words(PAUSE, "Hand out no more events."),
            *params.subscription(),
            params.value("--for for_", "SPAN", "So long: 90s, 10m, 2h, 3d."),
            params.value("--until", "TIME", "Until then, as RFC 3339 has it."),
            obeys=one_of("for_", "until", says="how long"),
        ),
        params.verb(
            "resume",
            _run,
            params.Words(RESUME, "Go on."),
            *params.subscription(),
        ),
        params.verb(
            "reset",
            _run,
            params.Words(RESET, "Move its position, back or forward."),
            *params.subscription(),
            params.number("--to-sequence", "This one is the next to be delivered.", least=1),
            params.value("--to-time", "TIME", "The first event since then is the next: RFC 3339, or 10m, 2h, 3d ago."),
            params.flag("--all", "Everything that the stream holds."),
            params.flag("--new", "Only events from now on."),
            params.dry_run(),
            params.yes(),
            obeys=one_of("to_sequence", "to_time", "all", "new", says="where to"),
        ),
        params.verb(
            "delete",
            _run,
            params.Words(DELETE, "Delete the consumer that serves one."),
            *params.subscription(),
            params.yes(),
        ),
    ],
)
