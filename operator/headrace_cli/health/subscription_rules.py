"""The rules about one Subscription: its state, its subscriber, its consumer. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from headrace.core import subject_pattern
from headrace.core.channel import health
from headrace.core.delivery import stage_record
from headrace.core.delivery.subscriber import SubscriberState
from headrace.core.plural import counted
from headrace_cli.health.facts import SubscriptionFacts
from headrace_cli.health.finding import Finding, Severity, note, problem, risk
from headrace_cli.view import units

# Longer than a cold start, an ack wait and a sweep of the scaler together.
STALLED_SECONDS = 60.0
# Events that a sink took are a note for a day, and a risk while it goes on.
SUNK_RECENT, SUNK_KNOWN = timedelta(hours=1), timedelta(days=1)
# Synchronised clocks differ by less.
MOST_SKEW_SECONDS = 5.0
NAMED = 5


def _state(one: SubscriptionFacts, now: datetime) -> Iterator[Finding]:
    known = one.subscription
    subscriber = known.subscriber
    if known.damage:
        yield problem("damaged", known.damage, "reconcile the channel again")
    elif subscriber is None:
        if known.channel.origin != "peer":
            yield note(
                "foreign-consumer",
                f"consumer {known.consumer} is not Headrace's, but somebody else's: "
                f"{counted(known.pending, 'event waits', 'events wait')} there",
                "nothing, if somebody uses it; one that nobody uses keeps events of an Interest or WorkQueue stream",
            )
    elif subscriber.state is SubscriberState.REFUSED:
        do = "mend the Subscription; its events wait, and nothing is lost"
        yield problem("refused", f"it can't be delivered to: {subscriber.reason}", do)
    elif subscriber.state is SubscriberState.GONE:
        since = units.age(units.moment(subscriber.gone_since), now)
        yield problem(
            "gone",
            f"its entry vanished from the channel {since} ago, so nothing is delivered",
            "if it was deleted, its consumer goes by itself; if not, look why the Subscription is not Ready: "
            "kubectl describe subscription",
        )
    elif known.info.get("paused"):
        rest = units.span(float(known.info.get("pause_remaining") or 0) / 1e9)
        do = f"`kn jetstream subscription resume {known.ref}`"
        yield note("paused", f"it is paused for another {rest}", do)


def _failing(one: SubscriptionFacts, now: datetime) -> Iterator[Finding]:
    if not one.retrying:
        return
    newest = one.records[0] if one.records else None
    last = f"; the last failure: {newest.last}" if newest is not None and newest.last else ""
    due = ""
    if newest is not None and newest.due is not None:
        left = newest.due - now.timestamp()
        due = f", the next retry in {units.span(left)}" if left >= 0 else f", a retry is due for {units.span(-left)}"
    known = one.subscription.subscriber
    to = known.subscriber.uri if known is not None and known.subscriber is not None else "its reply address"
    yield problem(
        "failing",
        f"{counted(one.retrying, 'event failed and waits', 'events failed and wait')} for another attempt{due}{last}",
        f"mend {to}: 404 or a name that is not found is a wrong address or a Service that is not Ready; a timeout is a "
        "subscriber slower than delivery.timeout; 5xx is in its own log",
    )


def _sunk(one: SubscriptionFacts, now: datetime) -> Iterator[Finding]:
    """To the channel an event that the sink took is delivered; to people who wait at the subscriber it is not."""
    sunk = one.sunk
    if sunk is None or now - sunk.at > SUNK_KNOWN:
        return
    ago = units.span((now - sunk.at).total_seconds())
    yield Finding(
        Severity.RISK if now - sunk.at <= SUNK_RECENT else Severity.NOTE,
        "sunk",
        f"{counted(sunk.events, 'event')} went to its dead letter sink {sunk.sink}, the last {ago} ago: {sunk.last}",
        "mend the subscriber, or what is sent to it; then have the sink send them again, with new ids",
    )


def _window(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    window = health.AckWindow(one.subscription.unacked, int(one.subscription.config.get("max_ack_pending", 0)))
    if window.full:
        yield problem(
            "window-full",
            f"{window.out} of at most {counted(window.most, 'event')} handed out and not settled: no fresh one is "
            "delivered",
            "mend the subscriber, shorten its back-off, or raise maxAckPending in consumerConfigTemplate",
        )


def _stalled(one: SubscriptionFacts, now: datetime) -> Iterator[Finding]:
    """An event could be delivered, and nobody asks for it."""
    known = one.subscription
    if known.state != "ready" or not known.pending or known.waiting or known.config.get("deliver_subject"):
        return
    since = one.idle_since(now)
    if (now - since).total_seconds() < STALLED_SECONDS:
        return
    cluster = known.info.get("cluster") or {}
    leaderless = bool(cluster) and not cluster.get("leader")
    step = f"`kn jetstream step-down {known.channel.ref} --subscription {known.ref}`, then without --subscription"
    yield problem(
        "no-leader" if leaderless else "stalled",
        f"{counted(known.pending, 'event is', 'events are')} pending, none was handed out for {units.age(since, now)}, "
        "and nobody pulls" + (": its consumer has no leader" if leaderless else ""),
        "is the operator (or `headrace up`) running, and may it start `forward`? Look at its log for leases that fail; "
        f"if it pulls in vain, let the consumer choose another leader: {step}",
    )


_PULL_LIMITS = ("max_batch", "max_bytes", "max_expires")


def _vain_pulls(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    if one.vain_pulls:
        yield problem(
            "pulls-bring-nothing",
            f"forward asks NATS for its events and gets none: {one.vain_pulls}",
            f"look at its consumer {one.subscription.consumer} for what somebody has set by hand, at the limits of the "
            "server and the stream, and whether JetStream has a leader for it",
        )


def _narrow_pulls(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    """Limits that slow delivery down."""
    config = one.subscription.config
    limits = [f"{key} {config[key]}" for key in _PULL_LIMITS if int(config.get(key) or 0) > 0]
    if limits and one.subscription.subscriber is not None:
        yield note(
            "narrow-pulls",
            f"what one pull of its consumer may ask for is limited ({', '.join(limits)}), so that it may be slow",
            "raise the limit where it was set: on the consumer by hand, or as max_request_batch among the limits of "
            "the server's jetstream",
        )


def _pushed(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    """Nobody can pull from a push consumer, and NATS can't make it a pull consumer."""
    known = one.subscription
    deliver = known.config.get("deliver_subject")
    if deliver and known.subscriber is not None:
        yield problem(
            "push-consumer",
            f"its consumer {known.consumer} is a push consumer, which delivers to the subject {deliver}: somebody has "
            "made it by hand in the place of Headrace's, which pulls",
            f"`nats consumer rm {known.channel.stream} {known.consumer}`: Headrace's is made then, and begins where "
            "deliverPolicy says",
        )


def _stuck(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    if one.stuck:
        named = ", ".join(map(str, one.stuck[:NAMED]))
        yield problem(
            "stuck",
            f"{counted(len(one.stuck), 'event')} can be neither delivered nor parked: sequence {named}",
            "make room in the aside stream, or raise the server's max_payload; "
            f"`kn jetstream peek {one.subscription.channel.ref} --sequence {one.stuck[0]} --limit 1` shows one, "
            "`rm-event` removes it",
        )


def _forgotten(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    if one.forgotten:
        named = ", ".join(map(str, one.forgotten[:NAMED]))
        known = one.subscription
        yield problem(
            "retries-forgotten",
            f"{counted(len(one.forgotten), 'event waits', 'events wait')} for a retry that NATS will never make, since "
            f"the consumer does not hold {'it' if len(one.forgotten) == 1 else 'them'} any more: sequence {named}",
            f"was max_deliver set on consumer {known.consumer} by hand? Reconciling takes it back, and parks these "
            f"within minutes: then `kn jetstream deadletter replay {known.channel.ref} --all`",
        )


def _clocks(one: SubscriptionFacts, now: datetime) -> Iterator[Finding]:
    """A retry is due later than its wait allows, so somebody's clock is ahead."""
    ahead = max((stage_record.skew(each, now.timestamp(), math.inf) for each in one.records), default=0.0)
    if ahead > MOST_SKEW_SECONDS:
        yield risk(
            "clocks-differ",
            f"a retry is due {units.span(ahead)} later than its back-off allows: the clock of a process of forward was "
            "ahead of the one here by as much",
            "see to the clocks (NTP) of the nodes that forward runs on, and of this machine; events are delivered all "
            "the same, since such a due time is believed within the back-off only",
        )


def _discarded(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    if one.discarded:
        yield risk(
            "discarded",
            f"the server discarded {counted(one.discarded, 'event')} before delivery: what was discarded is lost",
            "look at maxAge, maxMsgs, maxBytes and discard of the stream, or at who purged it",
        )


def _sees_nothing(one: SubscriptionFacts, _: datetime) -> Iterator[Finding]:
    known = one.subscription
    taken = known.channel.info["config"].get("subjects") or ()
    subjects = [subject_pattern.stored(subject, known.channel.transform) for subject in taken]
    patterns = subject_pattern.filters(known.config)
    if known.state == "foreign" or not subjects:
        return
    # If nobody can tell where a subject's events are stored, the filter may match them.
    if any(one is None or subject_pattern.overlap(pattern, one) for pattern in patterns for one in subjects):
        return
    yield problem(
        "filter-sees-nothing",
        f"its filter {', '.join(patterns)} matches no subject of the stream: it gets nothing",
        "mend filterSubject in the channel's consumerConfigTemplate",
    )


OF_SUBSCRIPTIONS: tuple[Callable[[SubscriptionFacts, datetime], Iterator[Finding]], ...] = (
    _state,
    _failing,
    _sunk,
    _window,
    _stalled,
    _vain_pulls,
    _narrow_pulls,
    _pushed,
    _stuck,
    _forgotten,
    _clocks,
    _discarded,
    _sees_nothing,
)
