"""Invariants 10 to 13: what is in hand, what is left behind, what is told, and what must never be told."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.faults import Kind
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.fates import taken
from tests.simulation.oracle.view import History, Journey, Unsure
from tests.simulation.plan import DEAD_LETTER, REPLY, SUBSCRIBER

# The server answers a purge after so long at the most; a strike until then may have kept it from being asked.
PURGED = 6.0
AT_REST = ("AckWindowsOpen", "NoEventsStuck", "RetriesHeld", "PullsServed", "AsideStreamHasRoom")


def hands_are_not_too_full(history: History) -> Iterator[Failure]:
    for name, most in history.ledger.most.items():
        limit = history.ledger.limits.get(name)
        if limit is not None and most > limit:
            yield Failure(Invariant.HANDS, f"{name}: {most}, {limit} are allowed")


def records_go_with_their_events(history: History) -> Iterator[Failure]:
    ledger = history.ledger
    journeys = {
        (journey.name, sequence): journey
        for journey in history.journeys()
        for _, sequence in ledger.stored.get(journey.event, ())
    }
    unsettled = set(ledger.left)
    for name, sequence, which in ledger.records:
        journey = journeys.get((name, sequence))
        if journey is None or (name, journey.event) in unsettled:
            continue
        acked = journey.acked()
        # Of two deliveries that both count as the first, neither looks for the other's record.
        twice = len([act for act in journey.between(0.0, acked, "DELIVERY") if act.delivered == 1]) > 1
        if (
            not twice
            and not history.hits(acked - 1.0, acked + PURGED)
            and not history.struck_by(Kind.PAUSE, Kind.POWER, Kind.NATS_KILL)
        ):
            words = f"{name}: its {which} record is left, though it was settled"
            yield Failure(Invariant.RECORDS, words, journey.event, acked)
    for journey in history.journeys():
        yield from _parked(history, journey)


def _parked(history: History, journey: Journey) -> Iterator[Failure]:
    for copy in history.ledger.parked:
        if (copy.event, copy.subscription) != (journey.event, journey.name):
            continue
        at = max((act.at for act in journey.acts if act.parked), default=0.0)
        if not copy.reason:
            yield Failure(Invariant.RECORDS, f"{journey.name}: parked without a reason", journey.event, at)
        if not copy.intact:
            yield Failure(Invariant.RECORDS, f"{journey.name}: the parked copy is another event", journey.event, at)
        if not at:
            # Power took the event, and its acts name none.
            continue
        posts = [post for post in journey.posts if post.at <= at]
        heard = [history.heard(journey, post) for post in posts]
        struck = history.hits(journey.given_at, at + 1.0, harmless=())
        # A record of before power failed may be that of another event, which had the same sequence.
        if struck or taken(history, journey.event, copy.sequence, at) or any(isinstance(one, Unsure) for one in heard):
            continue
        failed = [one for one in heard if one is None or not 200 <= one <= 299]
        if copy.attempts != len(failed):
            words = f"{journey.name}: the parked copy tells {copy.attempts} attempts; {len(failed)} have failed"
            yield Failure(Invariant.RECORDS, words, journey.event, at)
        told = _last_failure(history, journey, at)
        if told is not None and copy.status != told:
            words = f"{journey.name}: the parked copy tells status {copy.status}, it was {told}"
            yield Failure(Invariant.RECORDS, words, journey.event, at)


def _last_failure(history: History, journey: Journey, until: float) -> int | None:
    """The status that a dead letter or a parked copy should tell; None where that is not sure."""
    before = [post for post in journey.posts if post.at <= until and post.role in (SUBSCRIBER, REPLY)]
    if not before:
        return None
    heard = history.heard(journey, before[-1])
    if isinstance(heard, Unsure):
        return None
    return 500 if heard is None else heard


def counters_say_what_happened(history: History) -> Iterator[Failure]:
    ledger = history.ledger
    for words in ledger.decreased:
        yield Failure(Invariant.COUNTS, f"a counter went down: {words}", at=ledger.last_at)
    for channel, found in ledger.conditions.items():
        for kind, reason in found.items():
            # A record that a strike has left behind looks like that of an event which NATS has given up (ADR 043).
            if kind == "RetriesHeld" and (history.hits(0.0, ledger.last_at) or history.deletes()):
                continue
            if kind in AT_REST and not ledger.left:
                words = f"{channel}: {kind} is False ({reason}), and nothing is wrong any more"
                yield Failure(Invariant.COUNTS, words, at=ledger.last_at)
    for journey in history.journeys():
        for post in journey.of(DEAD_LETTER):
            yield from _told_wrong(history, journey, post.at, post.failed_with)
    if history.ledger.strikes:
        return
    for name, counts in ledger.counted.items():
        yield from _counted_wrong(history, name, counts)


def _told_wrong(history: History, journey: Journey, at: float, told: int | None) -> Iterator[Failure]:
    real = _last_failure(history, journey, at)
    if told is None or real is None or told == real or history.hits(0.0, at):
        return
    words = f"{journey.name}: the dead letter tells status {told}, it was {real}"
    yield Failure(Invariant.COUNTS, words, journey.event, at)


def _counted_wrong(history: History, name: str, counts: dict[str, int]) -> Iterator[Failure]:
    ledger = history.ledger
    journeys = [journey for journey in history.journeys() if journey.name == name]
    parked = len({copy.event for copy in ledger.parked if copy.subscription == name})
    finished = {journey.event: [history.finished(journey, post) for post in journey.posts] for journey in journeys}
    if any(None in found for found in finished.values()):
        return
    roles: dict[str, int] = {"delivered": 0, "dead_lettered": 0}
    for journey in journeys:
        for post, done in zip(journey.posts, finished[journey.event], strict=True):
            if done:
                roles["dead_lettered" if post.role == DEAD_LETTER else "delivered"] += 1
                break
    expected = {**roles, "parked": parked}
    for outcome, count in expected.items():
        if counts.get(outcome, 0) != count:
            words = f"{name}: {counts.get(outcome, 0)} counted as {outcome}, {count} were"
            yield Failure(Invariant.COUNTS, words, at=ledger.last_at)
    if name in ledger.sunk and ledger.sunk[name] != roles["dead_lettered"]:
        words = f"{name}: {ledger.sunk[name]} noted as dead-lettered, {roles['dead_lettered']} were"
        yield Failure(Invariant.COUNTS, words, at=ledger.last_at)


def no_errors(history: History) -> Iterator[Failure]:
    for words in history.ledger.troubles:
        yield Failure(Invariant.ERRORS, words, at=history.ledger.last_at)
