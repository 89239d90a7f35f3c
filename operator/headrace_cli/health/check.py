"""What `check` says: a status for a monitor, with the numbers that led to it. Pure.

The words and exit statuses are those of monitoring plugins; the text for Prometheus is its exposition format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum

from headrace.core.errors import Misconfigured
from headrace.core.nats import payload
from headrace.core.plural import counted
from headrace.core.quoting import quoted
from headrace_cli.catalog.channels import CatalogChannel
from headrace_cli.health.facts import ChannelFacts, Facts, SubscriptionFacts, account_used, used
from headrace_cli.view import units

# Older trouble is history, and stands in the report.
RECENT = timedelta(hours=1)


class Status(IntEnum):
    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class Limit:
    """The numbers from which on there is a warning, and a critical state; None: never."""

    warning: float | None = None
    critical: float | None = None

    def judge(self, value: float) -> Status:
        if self.critical is not None and value >= self.critical:
            return Status.CRITICAL
        return Status.WARNING if self.warning is not None and value >= self.warning else Status.OK


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds.

    Attributes:
        pending, unsettled, parked: events, of one Subscription; `parked` of one channel.
        sunk: events of one Subscription that its dead letter sink took in its place, if the last one is RECENT.
        used: how full a stream, its aside stream or the account is, from 0 to 100.
        stalled: seconds that a Subscription's oldest pending event has waited while none was handed out.
    """

    pending: Limit = Limit()
    unsettled: Limit = Limit()
    parked: Limit = Limit(1)
    sunk: Limit = Limit(1)
    used: Limit = Limit(80, 95)
    stalled: Limit = Limit(60, 300)


@dataclass(frozen=True, slots=True)
class CheckTrouble:
    status: Status
    text: str


def parse_limit(text: str, option: str) -> Limit:
    """Parse `WARNING,CRITICAL`; either may be empty.

    Raises:
        Misconfigured: the text has another form.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)?,?(\d+(?:\.\d+)?)?", text)
    if match is None or not any(match.groups()):
        wanted = "give WARNING,CRITICAL as numbers, as 1000,10000; either may be left out"
        raise Misconfigured(f"{option} is {quoted(text)}: {wanted}", field=option)
    warning, critical = (None if each is None else float(each) for each in match.groups())
    return Limit(warning, critical)


def troubles(facts: Facts, limits: Limits) -> list[CheckTrouble]:
    """Every number beyond its limit, the worst first."""
    found = [trouble for each in facts.channels for trouble in _channel(each, facts, limits)]
    share, what = account_used(facts.account)
    found += _judged(limits.used, 100 * share, f"the account's {what} is {100 * share:.0f} % used")
    if facts.no_room:
        found.append(CheckTrouble(Status.CRITICAL, f"NATS has no room for any message: {facts.no_room}"))
    if problem := payload.problem(facts.max_payload) if facts.max_payload else "":
        found.append(CheckTrouble(Status.CRITICAL, problem))
    return sorted(found, key=lambda trouble: -trouble.status)


def status_of(found: Iterable[CheckTrouble]) -> Status:
    return max((trouble.status for trouble in found), default=Status.OK)


def text(facts: Facts, found: list[CheckTrouble]) -> str:
    """The lines of a monitoring plugin: the status with the numbers for a graph, then each trouble."""
    subscriptions = [one for each in facts.channels for one in each.subscriptions]
    numbers = {
        "pending": sum(one.subscription.pending for one in subscriptions),
        "unsettled": sum(one.subscription.unacked for one in subscriptions),
        "parked": sum(each.parked for each in facts.channels),
    }
    first = found[0].text if found else "all is well"
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    of = f"{counted(len(facts.channels), 'channel')}, {counted(len(subscriptions), 'Subscription')}"
    graph = " ".join(f"{name}={value}" for name, value in numbers.items())
    lines = [f"{status_of(found).name} - {first}{more} ({of}) | {graph}"]
    lines += [f"{trouble.status.name}: {trouble.text}" for trouble in found]
    return "".join(f"{line}\n" for line in lines)


def prometheus(facts: Facts, status: Status) -> str:
    """The numbers and the status in Prometheus' text format."""
    lines = []
    for name, help_, number in _OF_CHANNELS:
        lines += [f"# HELP {name} {help_}", f"# TYPE {name} gauge"]
        lines += [f"{name}{_labels(each.channel)} {number(each):g}" for each in facts.channels]
    for name, help_, number_of in _OF_SUBSCRIPTIONS:
        lines += [f"# HELP {name} {help_}", f"# TYPE {name} gauge"]
        lines += [
            f"{name}{_labels(each.channel, one.subscription.name)} {number_of(one):g}"
            for each in facts.channels
            for one in each.subscriptions
        ]
    lines += [
        "# HELP headrace_check_status 0 ok, 1 warning, 2 critical, 3 unknown.",
        "# TYPE headrace_check_status gauge",
    ]
    return "".join(f"{line}\n" for line in [*lines, f"headrace_check_status {int(status)}"])


_OF_CHANNELS: tuple[tuple[str, str, Callable[[ChannelFacts], float]], ...] = (
    ("headrace_channel_events", "Events in the stream.", lambda each: each.channel.info["state"]["messages"]),
    ("headrace_channel_bytes", "Bytes of the stream.", lambda each: each.channel.info["state"]["bytes"]),
    (
        "headrace_channel_used_ratio",
        "Share of its tightest limit that is used.",
        lambda each: used(each.channel.info)[0],
    ),
    ("headrace_channel_parked_events", "Events that could be delivered nowhere.", lambda each: each.parked),
)
_OF_SUBSCRIPTIONS: tuple[tuple[str, str, Callable[[SubscriptionFacts], float]], ...] = (
    ("headrace_subscription_pending_events", "Events not handed out yet.", lambda one: one.subscription.pending),
    (
        "headrace_subscription_unsettled_events",
        "Events handed out and not settled.",
        lambda one: one.subscription.unacked,
    ),
    ("headrace_subscription_retrying_events", "Events that wait for a retry.", lambda one: one.retrying),
    (
        "headrace_subscription_redelivered_events",
        "Unsettled ones handed out before.",
        lambda one: one.subscription.redelivered,
    ),
    ("headrace_subscription_discarded_events", "Events discarded before delivery.", lambda one: one.discarded),
    (
        "headrace_subscription_sunk_events",
        "Events that its dead letter sink took in its place.",
        lambda one: 0 if one.sunk is None else one.sunk.events,
    ),
)


def _channel(each: ChannelFacts, facts: Facts, limits: Limits) -> Iterator[CheckTrouble]:
    channel = each.channel
    for info in (channel.info, channel.aside):
        if info is not None:
            share, what = used(info)
            yield from _judged(
                limits.used, 100 * share, f"stream {info['config']['name']} is {100 * share:.0f} % full ({what})"
            )
    yield from _judged(limits.parked, each.parked, f"{channel.ref} has {counted(each.parked, 'parked event')}")
    for facts_of in each.subscriptions:
        one = facts_of.subscription
        name = f"Subscription {one.ref} of {channel.ref}"
        if one.state in ("refused", "damaged"):
            yield CheckTrouble(Status.CRITICAL, f"{name} is {one.state}")
        yield from _judged(limits.pending, one.pending, f"{name} has {counted(one.pending, 'event')} pending")
        yield from _judged(limits.unsettled, one.unacked, f"{name} has {counted(one.unacked, 'event')} unsettled")
        if facts_of.stuck:
            yield CheckTrouble(Status.CRITICAL, f"{name} has {counted(len(facts_of.stuck), 'stuck event')}")
        if facts_of.discarded:
            yield CheckTrouble(
                Status.WARNING,
                f"{name} lost {counted(facts_of.discarded, 'event')} that the server discarded",
            )
        if facts_of.sunk is not None and facts.at - facts_of.sunk.at < RECENT:
            events, last = counted(facts_of.sunk.events, "event"), facts_of.sunk.last
            words = f"{name} has {events} that its dead letter sink took, the last after: {last}"
            yield from _judged(limits.sunk, facts_of.sunk.events, words)
        if one.pending and one.state == "ready" and not one.waiting:
            seconds = (facts.at - facts_of.idle_since(facts.at)).total_seconds()
            words = f"{name} has {counted(one.pending, 'event')} pending and got none for {units.span(seconds)}"
            yield from _judged(limits.stalled, seconds, words)


def _judged(limit: Limit, value: float, words: str) -> Iterator[CheckTrouble]:
    status = limit.judge(value)
    if status is not Status.OK:
        yield CheckTrouble(status, words)


def _labels(channel: CatalogChannel, subscription: str | None = None) -> str:
    # Names of Kubernetes need no escapes, but a consumer's own name may be anything.
    labels = {"namespace": channel.namespace, "channel": channel.name}
    if subscription is not None:
        labels["subscription"] = subscription.replace("\\", "\\\\").replace('"', '\\"')
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
