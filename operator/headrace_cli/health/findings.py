"""Why events don't arrive: what can be read off the facts, and what to do about it. Pure.

Each rule looks at one thing and knows one cure; all of them are asked, the worst comes first. The runbooks that people
follow by hand elsewhere (docs/kn-plugin.md has the table) are rules here: of channels and of Subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.core.nats import payload
from headrace_cli.health.channel_rules import FULL, NEARLY_FULL, OF_CHANNELS
from headrace_cli.health.facts import Facts, account_used
from headrace_cli.health.finding import Finding, Severity, note, problem, risk
from headrace_cli.health.subscription_rules import OF_SUBSCRIPTIONS

SYNC_UNSEEN = note(
    "sync-unseen",
    "an accepted event outlives a loss of power only if nats-server has sync_interval: always, and it tells no client "
    "whether it has",
    "let its monitoring port say it, --monitor http://HOST:8222 of each server, or look into its configuration "
    "(docs/power.md)",
    where="NATS",
)
"""For where nobody has named a monitoring port to ask."""


def findings(facts: Facts) -> list[Finding]:
    """All findings, the worst first; empty when all is well."""
    found = [*_account(facts), *_server(facts)]
    if not facts.channels:
        found.append(
            problem(
                "no-channel",
                "there is no channel here: events are answered with 404",
                "look into all namespaces with -A; make a channel (`kn jetstream channel create`); if there are some, "
                "this is another NATS server, account or JetStream domain than theirs: look at --nats and the "
                "credentials",
                where="NATS",
            )
        )
    for each in facts.channels:
        of_it = str(each.channel.ref)
        found += (replace(one, where=of_it) for rule in OF_CHANNELS for one in rule(each))
        for served in each.subscriptions:
            where = f"{served.subscription.ref} of {of_it}"
            found += (replace(one, where=where) for of in OF_SUBSCRIPTIONS for one in of(served, facts.at))
    return by_severity(found)


def _server(facts: Facts) -> Iterator[Finding]:
    if too_narrow := payload.problem(facts.max_payload) if facts.max_payload else "":
        yield problem("no-event-fits", too_narrow, payload.DO, where="NATS")
    elif facts.max_payload and (narrow := payload.narrow(facts.max_payload)):
        yield risk("small-events-only", narrow, payload.DO, where="NATS")
    if facts.no_room:
        yield problem(
            "store-full",
            f"it has no room for any message ({facts.no_room}): events are refused (507), and what fails can be "
            "neither retried in time nor parked",
            "raise max_file_store of the servers (max_memory_store, for streams in memory) or the account's limit, or "
            "make room: `kn jetstream report` shows the largest streams, `deadletter discard` and `purge` empty them",
            where="NATS",
        )


def by_severity(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: (-finding.severity, finding.where))


def _account(facts: Facts) -> Iterator[Finding]:
    share, what = account_used(facts.account)
    if share >= NEARLY_FULL:
        severity = Severity.PROBLEM if share >= FULL else Severity.RISK
        yield Finding(
            severity,
            "account-full",
            f"its {what} is {100 * share:.0f} % used: a full one refuses events (507)",
            "raise the account's limit, or make room: `kn jetstream report` shows the largest streams, "
            "`deadletter discard` and `purge` empty them",
            where="NATS account",
        )
