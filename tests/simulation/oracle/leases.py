"""Invariants 7, 8 and 9: leases within their bounds, nothing open at rest, and everything settled in time."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.faults import Kind
from tests.simulation.ledger import FOR_EVER
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.view import ACK_WAIT, History, Journey

# One question to NATS after the other, at the end of a delivery and of a lease.
QUESTIONS = 20.0
SWEEP = 5.0
# What a due event may wait for beside its due time: a probe or a sweep, and a lease to be opened.
LATE = ACK_WAIT + SWEEP + 5.0


def leases_keep_their_bounds(history: History) -> Iterator[Failure]:
    leases = history.ledger.leases
    for lease in leases:
        terms = history.terms[lease.subscription]
        most = terms.max_scale if terms.order == "unordered" else 1
        open_now = [
            one
            for one in leases
            if (one.subscription, one.scaler) == (lease.subscription, lease.scaler)
            and one.at <= lease.at < min(one.ended, one.late, one.at + one.seconds)
        ]
        if len(open_now) > most:
            words = f"{len(open_now)} leases on {lease.subscription} at once; {most} are allowed"
            yield Failure(Invariant.LEASES, words, at=lease.at)
        longest = lease.seconds + 3 * terms.timeout + QUESTIONS
        if lease.subscription in history.edited:
            longest += 20.0
        held = lease.ended - lease.at
        if longest < held < FOR_EVER and not history.hits(lease.at, lease.ended, lease.host, "operator", harmless=()):
            words = f"a lease on {lease.subscription} of {held:.1f} s; {longest:g} s are the most"
            yield Failure(Invariant.LEASES, words, at=lease.ended)


def nothing_is_open_at_rest(history: History) -> Iterator[Failure]:
    ledger = history.ledger
    if ledger.quiet_at == FOR_EVER:
        return
    for lease in ledger.leases:
        if lease.ended == FOR_EVER:
            words = f"a lease on {lease.subscription} is open, though nothing waits"
            yield Failure(Invariant.ZERO, words, at=lease.at)
    for pull in ledger.pulls:
        yield Failure(Invariant.ZERO, f"a pull is open at rest: {pull}", at=ledger.last_at)
    for name, count in ledger.at_rest.items():
        before = ledger.baseline.get(name, 0)
        if count > before:
            words = f"{count} {name} at rest, {before} before the first event"
            yield Failure(Invariant.ZERO, words, at=ledger.last_at)


def everything_is_settled_in_time(history: History) -> Iterator[Failure]:
    for name, event in history.ledger.left:
        words = f"not settled for {name} at the end, {history.ledger.last_at:.0f} s"
        yield Failure(Invariant.PROGRESS, words, event, history.ledger.last_at)
    for journey in history.journeys():
        yield from _late(history, journey)


def _late(history: History, journey: Journey) -> Iterator[Failure]:
    """An event that is due and that nothing holds up goes soon."""
    channel = history.plan.channels[history.events[journey.event].channel]
    window = min(terms.max_ack_pending for terms in channel.subscriptions)
    if journey.terms.order != "unordered" or window < len(history.plan.events):
        return
    stored = history.ledger.stored.get(journey.event)
    moments = [(at, 0.0) for at, _ in (stored or [])[:1]]
    moments += [(act.at, act.seconds) for act in journey.acts if act.verb == "ASIDE" and act.stage]
    for at, wait in moments:
        times = [post.at for post in journey.posts] + [act.at for act in journey.acts if act.verb in _MOVES]
        after = [time for time in times if time > at + 1e-6]
        if not after:
            continue
        # A lease that holds as many bytes as it may pulls no more until its subscriber answers.
        free = max(at + wait, _hands_full_until(history, journey.name, at, min(after)))
        if min(after) > free + LATE and not history.hits(at - 30.0, min(after), harmless=(Kind.WALL,)):
            words = f"{journey.name}: due at {at + wait:.1f} s, and nothing happened until {min(after):.1f} s"
            yield Failure(Invariant.PROGRESS, words, journey.event, min(after))


def _hands_full_until(history: History, name: str, since: float, before: float) -> float:
    """The last moment in that time up to which the leases of a subscription held so many bytes that none could pull."""
    held = [
        (
            act.at,
            min([one.at for one in journey.acts if one.at > act.at and one.verb in _SETTLES], default=FOR_EVER),
            size,
        )
        for journey in history.journeys()
        if journey.name == name and (size := history.events[journey.event].size)
        for act in journey.between(0.0, before, "DELIVERY")
    ]
    for end in sorted((end for _, end, _ in held if since <= end <= before), reverse=True):
        leases = sum(one.at < end <= one.ended for one in history.ledger.leases)
        room = min(IN_HAND, PROCESS_BYTES / max(1, leases)) - sum(
            size for begin, over, size in held if begin < end <= over
        )
        if room < LARGEST:
            return end
    return 0.0


# What one process may hold, what one lease may, and the largest event with its envelope: as the world has them.
PROCESS_BYTES, IN_HAND, LARGEST = 256 * 1024, 128 * 1024, 72 * 1024
_SETTLES = ("ACK", "ACK_SYNC", "NAK")
_MOVES = ("ACK", "ACK_SYNC", "NAK", "ASIDE", "DELIVERY")
