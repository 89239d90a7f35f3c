"""Why events don't arrive: what can be read off the facts, and what to do about it. Pure.

Each rule looks at one thing and knows one cure; all of them are asked, the worst comes first. The runbooks that people
follow by hand elsewhere (docs/kn-plugin.md has the table) are rules here: of channels and of Subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.nats import payload
from headrace_cli.health.channel_rules import FULL, NEARLY_FULL, OF_CHANNELS
from headrace_cli.health.facts import Facts, account_used
from headrace_cli.health.finding import Finding, Severity
from headrace_cli.health.subscription_rules import OF_SUBSCRIPTIONS


def findings(facts: Facts) -> list[Finding]:
    """Everything that is wrong, the worst first; empty when all is well."""
    found = [*_account(facts), *_server(facts)]
    if not facts.channels:
        found.append(
            Finding(
                Severity.PROBLEM,
                "no-channel",
                "NATS",
                "there is no channel here: events are answered with 404",
                "look into all namespaces with -A; make a channel (`kn jetstream channel create`); if there are some, "
                "this is another NATS server, account or JetStream domain than theirs: look at --nats and the "
                "credentials",
            )
        )
    for each in facts.channels:
        for rule in OF_CHANNELS:
            found += rule(each)
        for one in each.subscriptions:
            for rule_of_one in OF_SUBSCRIPTIONS:
                found += rule_of_one(one, facts.at)
    return by_severity(found)


def _server(facts: Facts) -> Iterator[Finding]:
    if problem := payload.problem(facts.max_payload) if facts.max_payload else "":
        yield Finding(Severity.PROBLEM, "no-event-fits", "NATS", problem, payload.DO)
    elif facts.max_payload and (narrow := payload.narrow(facts.max_payload)):
        yield Finding(Severity.RISK, "small-events-only", "NATS", narrow, payload.DO)
    if facts.no_room:
        yield Finding(
            Severity.PROBLEM,
            "store-full",
            "NATS",
            f"it has no room for any message ({facts.no_room}): events are refused (507), and what fails can be "
            "neither retried in time nor parked",
            "raise max_file_store of the servers (max_memory_store, for streams in memory) or the account's limit, or "
            "make room: `kn jetstream report` shows the largest streams, `deadletter discard` and `purge` empty them",
        )


def by_severity(found: Iterable[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(found, key=lambda finding: (-finding.severity, finding.where))


def _account(facts: Facts) -> Iterator[Finding]:
    share, what = account_used(facts.account)
    if share >= NEARLY_FULL:
        severity = Severity.PROBLEM if share >= FULL else Severity.RISK
        yield Finding(
            severity,
            "account-full",
            "NATS account",
            f"its {what} is {100 * share:.0f} % used: a full one refuses events (507)",
            "raise the account's limit, or make room: `kn jetstream report` shows the largest streams, "
            "`deadletter discard` and `purge` empty them",
        )
