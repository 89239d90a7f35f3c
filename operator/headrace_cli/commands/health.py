"""The words of `report`, `check`, `doctor` and `step-down`."""

from __future__ import annotations

import click

from headrace_cli.commands import params
from headrace_cli.commands.rules import Given

REPORT = """\
Show streams and Subscriptions with lag, rates, redeliveries and sizes. Rates come from two looks, an interval apart.

PENDING events were not handed out yet; UNSETTLED ones are in the subscriber's hands, or wait for their retry
(RETRYING). PARKED ones could be delivered nowhere; SUNK ones the subscriber did not take, and its dead letter sink did.

examples:
  kn jetstream report -A
  kn jetstream report orders --watch --interval 5
  kn jetstream report -A --interval 0 -o json | jq '.subscriptions[] | select(.pending > 100)'
"""

CHECK = """\
Say in one line, and by the exit status, how channels do: for Nagios, Icinga and the like, for a readiness gate, or with
--prometheus for a textfile collector.

Limits are WARNING,CRITICAL; either may be left out. NATS that can't be reached is critical.

\b
exit status: 0 ok, 1 warning, 2 critical, 3 unknown
(of `kn-jetstream check`: kn itself turns each but 0 into 1)

examples:
  kn jetstream check -A
  kn jetstream check orders --pending 1000,10000 --parked ,1
  kn jetstream check -A --prometheus > /var/lib/node_exporter/headrace.prom
"""

DOCTOR = """\
Find out why events don't arrive, and say what to do. It looks at NATS, at every stream and aside stream, at every
Subscription and at its last failures; it changes nothing. Of a `headrace up` it also knows the conditions of its
channels, such as an edit that NATS refuses; with --cluster it asks the API server for them, and NATS only where --nats
or NATS_URL says where that is.

\b
exit status: 0 nothing found (or only notes), 1 something is wrong

examples:
  kn jetstream doctor -A
  kn jetstream doctor orders -n shop
  kn jetstream doctor -A --cluster                      what the conditions in a cluster say
  kn jetstream doctor -A --monitor http://127.0.0.1:8222         and whether NATS syncs what it acknowledges
  kn jetstream doctor -A -o json | jq -r '.items[] | .code + " " + .where'
"""

STEP_DOWN = """\
Let a channel's stream, or with --subscription the consumer that serves it, choose another leader among its replicas.
Try it when `doctor` finds pending events that nobody gets though all is running. Nothing is lost; producers and
subscribers wait for a moment.

examples:
  kn jetstream step-down orders --subscription billing         the consumer first
  kn jetstream step-down shop/orders                           then the stream
"""


def _run(verb: str, given: Given) -> int:
    from headrace_cli.commands.actions import health

    return health.run(verb, given)


_CHANNEL = click.Argument(["channel"], required=False, metavar="[CHANNEL]")


def _limit(name: str, default: str | None, text: str) -> click.Option:
    return params.value(f"--{name}", metavar="W,C", help=text, default=default)


COMMANDS = [
    params.verb(
        "report",
        _run,
        params.Words(REPORT, "Lag, rates, redeliveries and sizes."),
        _CHANNEL,
        params.seconds("--interval", "Seconds between two looks; 0: one look, without rates.", default=1.0),
        params.flag("--watch", "Again and again, until Ctrl-C."),
        every=True,
        formats=("table", "json", "yaml"),
    ),
    params.verb(
        "check",
        _run,
        params.Words(CHECK, "A status for monitors, or numbers for Prometheus."),
        _CHANNEL,
        _limit("pending", None, "Events not handed out yet, of one Subscription."),
        _limit("unsettled", None, "Events handed out and not settled, of one Subscription."),
        _limit("parked", "1", "Parked events of one channel."),
        _limit("sunk", "1", "Events of one Subscription that its dead letter sink took, the last within an hour."),
        _limit("used", "80,95", "Percent of a limit that a stream or the account has used."),
        _limit("stalled", "60,300", "Seconds that the oldest pending event waits while none is handed out."),
        params.flag("--prometheus", "Numbers in Prometheus' text format."),
        every=True,
    ),
    params.verb(
        "doctor",
        _run,
        params.Words(DOCTOR, "Why events don't arrive, and what to do."),
        _CHANNEL,
        params.value(
            "--monitor",
            "URL",
            "nats-server's monitoring port, as http://nats.example:8222: it says what a "
            "loss of power takes. Repeatable, for several servers.",
            multiple=True,
        ),
        every=True,
        objects=True,
        formats=("table", "json", "yaml"),
    ),
    params.verb(
        "step-down",
        _run,
        params.Words(STEP_DOWN, "Let a stream or consumer choose another leader."),
        params.channel(),
        params.value("--subscription", "NAME", "The consumer of this Subscription, not the stream."),
    ),
]
