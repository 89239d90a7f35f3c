"""Invariants 1 to 3: what was accepted reaches everybody, nothing else does, nothing comes again without need."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.faults import Kind
from tests.simulation.ledger import FOR_EVER, Posted, Strike
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.view import History, Journey
from tests.simulation.plan import DEAD_LETTER, REPLY, SUBSCRIBER

# The server syncs so often by itself.
SYNC = 120.0
# The server knows an id again for so long.
DUPLICATE_WINDOW = 120.0
# After a loss of power somebody looks so soon whether a consumer stands ahead of its stream.
LOOKED_AT = 20.0


def every_accepted_event_has_its_fate(history: History) -> Iterator[Failure]:
    accepted = _accepted(history)
    for journey in history.journeys():
        yield from _settled_too_early(history, journey)
        if journey.event not in accepted or _has_a_fate(history, journey):
            continue
        if not lost_with_power(history, accepted[journey.event], journey):
            words = f"accepted, and neither delivered to {journey.name} nor dead-lettered nor parked"
            yield Failure(Invariant.FATE, words, journey.event, accepted[journey.event].ended)


def lost_with_power(history: History, posted: Posted, journey: Journey) -> Strike | None:
    """The loss of power that took the event, since the server had acknowledged it without syncing."""
    if history.plan.sync_always:
        return None
    for strike in history.ledger.strikes:
        if strike.fault.kind is not Kind.POWER:
            continue
        stored = history.ledger.stored.get(posted.event, ())
        whole = strike.fault.values[:1] == (1.0,)
        if not whole and any(strike.at - SYNC <= at <= strike.at for at, _ in stored):
            return strike
        # Its sequence was another event's before, and an ack from before names it.
        reused = [number for at, number in stored if at > strike.at]
        if any(
            taken(history, posted.event, one, strike.at) and _acked(history, journey, one, strike) for one in reused
        ):
            return strike
        if reused and _is_outgrown(history, journey, strike):
            return strike
    return None


def _is_outgrown(history: History, journey: Journey, strike: Strike) -> bool:
    """Had the stream grown past the consumer again before anybody could see that it stood ahead?"""
    acts = (one for one in history.ledger.acts if one.subscription == journey.name and one.at <= strike.at)
    passed = [one.sequence for one in acts if one.verb == "DELIVERY"]
    channel = history.events[journey.event].channel
    since = [
        number
        for event, stored in history.ledger.stored.items()
        if event in history.events and history.events[event].channel == channel
        for at, number in stored
        if strike.at < at <= strike.until + LOOKED_AT
    ]
    # A consumer that has lost a part itself is outgrown sooner.
    remembers = strike.fault.values[1:2] == (1.0,)
    return max(since, default=0) >= (max(passed, default=0) if remembers else 0)


def _acked(history: History, journey: Journey, sequence: int, strike: Strike) -> bool:
    acks = (act for act in history.ledger.acts if act.verb in ("ACK", "ACK_SYNC") and act.at >= strike.at)
    return any((act.subscription, act.sequence) == (journey.name, sequence) for act in acks)


def taken(history: History, event: str, sequence: int, before: float) -> bool:
    """Had another event of the channel that sequence by then?"""
    channel = history.events[event].channel
    return any(
        history.events[other].channel == channel and any(at <= before and number == sequence for at, number in stored)
        for other, stored in history.ledger.stored.items()
        if other != event and other in history.events
    )


def reported_as_lost(history: History) -> list[str]:
    """The accepted events that power took: what the promise says may happen without `sync_always`."""
    accepted = _accepted(history)
    return [
        journey.event
        for journey in history.journeys()
        if journey.event in accepted
        and not _has_a_fate(history, journey)
        and lost_with_power(history, accepted[journey.event], journey)
    ]


def nothing_strange_arrives(history: History) -> Iterator[Failure]:
    posted: dict[str, list[Posted]] = {}
    for one in history.ledger.posted:
        posted.setdefault(one.event, []).append(one)
    for post in history.ledger.posts:
        sent = posted.get(post.event)
        event = history.events.get(post.event)
        name = post.subscription.partition("/")[0]
        if sent is None or event is None or history.plan.channels[event.channel].name != name:
            yield Failure(Invariant.STRANGE, f"{post.subscription} got what nobody sent to it", post.event, post.at)
        elif all(one.status is not None and 400 <= one.status <= 499 for one in sent):
            yield Failure(Invariant.STRANGE, f"{post.subscription} got what was refused", post.event, post.at)
        elif post.at < sent[0].at:
            yield Failure(Invariant.STRANGE, f"{post.subscription} got it before it was sent", post.event, post.at)
        elif not post.intact:
            yield Failure(Invariant.STRANGE, f"{post.subscription} got other bytes", post.event, post.at)
    yield from _stored_wrong(history, posted)
    for journey in history.journeys():
        for post in journey.of(REPLY):
            given = (one for one in journey.of(SUBSCRIBER) if one.at < post.at and history.replied(journey, one))
            if journey.terms.reply and not any(given):
                yield Failure(Invariant.STRANGE, f"{journey.name} got a reply that nobody gave", post.event, post.at)


def nothing_comes_again_without_need(history: History) -> Iterator[Failure]:
    for journey in history.journeys():
        for before, post in zip(journey.posts, journey.posts[1:], strict=False):
            # The same POST, while the other is still in somebody's hands.
            over = min(before.ended, before.at + journey.terms.timeout)
            if journey.name in history.edited:
                over = before.ended
            # Whoever has it in hand since before a strike POSTs it when it can.
            since = min(journey.delivered(before), journey.delivered(post))
            struck = history.hits(journey.delivered(post), post.at, post.host) or history.forgotten(
                journey.name, since, post.at
            )
            if post.at + history.slack < over and not (struck or history.hits(before.at, post.at, before.host)):
                words = f"POSTed to {journey.name} while an earlier POST was not over"
                yield Failure(Invariant.DUPLICATE, words, journey.event, post.at)
        done = next((post for post in journey.posts if history.finished(journey, post)), None)
        if done is None:
            continue
        again = next((post for post in journey.posts if post.at > done.at), None)
        if again is None:
            continue
        acked = journey.acked(done.at)
        if history.hits(journey.delivered(again), again.at, again.host) or history.put_back(journey, again):
            # One that stood still had it in hand all the while.
            continue
        if not _excused(history, journey, journey.delivered(done), min(acked, again.at), done.host):
            if acked < again.at and history.forgotten(journey.name, acked, again.at):
                continue
            words = f"POSTed to {journey.name} again, though it was done at {done.at:.3f} s"
            yield Failure(Invariant.DUPLICATE, words, journey.event, again.at)


def _accepted(history: History) -> dict[str, Posted]:
    accepted: dict[str, Posted] = {}
    for one in history.ledger.posted:
        if one.status == 202:
            accepted.setdefault(one.event, one)
    return accepted


def _excused(history: History, journey: Journey, since: float, until: float, host: str) -> bool:
    return bool(history.hits(since, until, host)) or history.forgotten(journey.name, since, until)


def _has_a_fate(history: History, journey: Journey) -> bool:
    if any((one.event, one.subscription) == (journey.event, journey.name) for one in history.ledger.parked):
        return True
    parked = [act.at for act in journey.acts if act.parked]
    if parked and not history.plan.sync_always and history.loses_power(parked[-1]):
        # Power took the copy, which was not synced.
        return True
    for post in journey.posts:
        if history.finished(journey, post) is False:
            continue
        if post.role == DEAD_LETTER or post.role == REPLY or not history.replied(journey, post):
            return True
    # A strike may have come between a late answer and its hearer; the event is settled all the same.
    return False


def _settled_too_early(history: History, journey: Journey) -> Iterator[Failure]:
    """An ack before anybody has the event: a crash between the two would lose it."""
    acked = journey.acked()
    if acked == FOR_EVER or history.struck_by(Kind.POWER):
        # What power took gives its sequence to another event, and an ack that comes later names that one.
        return
    parked = any(act.parked for act in journey.between(0.0, acked, "ASIDE"))
    if not parked and not history.may_have_finished(journey, acked):
        yield Failure(Invariant.FATE, f"{journey.name}: acked before it had its fate", journey.event, acked)


def _stored_wrong(history: History, posted: dict[str, list[Posted]]) -> Iterator[Failure]:
    lost_power = history.struck_by(Kind.POWER)
    for event, sent in posted.items():
        stored = sorted(at for at, _ in history.ledger.stored.get(event, ()))
        for one in sent:
            if one.status == 202 and not any(at <= one.ended for at in stored):
                yield Failure(Invariant.STRANGE, "answered 202 before it was stored", event, one.ended)
        if len(stored) > 1 and not lost_power and stored[1] - stored[0] < DUPLICATE_WINDOW:
            yield Failure(Invariant.STRANGE, "stored twice", event, stored[1])
