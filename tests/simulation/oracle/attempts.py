"""Invariants 4 and 5: each stage gets 1 + retry POSTs, each of them after its back-off.

A POST is *counted* when the server has acted upon a record with one attempt more, or upon the ack. One that is not
counted needs an excuse: a strike between the event's delivery to that `forward` and the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.faults import Kind
from tests.simulation.ledger import FOR_EVER, Act, Post
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.view import History, Journey, Unsure, retryable, stage_of
from tests.simulation.plan import DEAD_LETTER, REPLY, ROLES, SUBSCRIBER

EARLY = 0.1
# Who has it in hand so long after a record was stored has read the record.
_READ_SECONDS = 1.0
STUCK_WAIT = 30.0
TWIN_PAUSE = 2.0


def each_stage_has_its_attempts(history: History) -> Iterator[Failure]:
    for journey in history.journeys():
        for role in ROLES:
            yield from _counted(history, journey, role)
        yield from _given_up_too_early(history, journey)
        yield from _record_after_nak(history, journey)


def no_post_before_its_back_off(history: History) -> Iterator[Failure]:
    for journey in history.journeys():
        before: Act | None = None
        for act in journey.acts:
            if act.verb != "ASIDE" or not act.stage:
                continue
            # A record of one that only waits tells of no attempt.
            advanced = sum(act.attempts) > (sum(before.attempts) if before is not None else 0)
            before = act
            posts = [post for post in journey.posts if post.at <= act.at]
            if not advanced or not posts or journey.name in history.edited:
                continue
            least = STUCK_WAIT if act.stuck else _back_off(history, journey, act, posts[-1])
            if act.seconds < least - 0.001:
                words = f"{journey.name}: a back-off of {act.seconds:g} s in place of {least:g} s"
                yield Failure(Invariant.EARLY, words, journey.event, act.at)
            yield from _too_early(history, journey, act, posts[-1])


def _back_off(history: History, journey: Journey, record: Act, failed: Post) -> float:
    """The back-off by the policy, or what the answer asked for if that is longer."""
    failures = record.attempts[stage_of(record.stage)] if record.attempts else 0
    # The attempt beyond the budget has the policy's longest.
    least = journey.terms.wait(min(max(failures, 1), max(journey.terms.retry, 1)))
    asked = history.events[journey.event].script(journey.name, failed.role).step(failed.n).retry_after
    if asked is None or history.heard(journey, failed) not in (429, 503):
        return least
    return max(least, min(float(asked), journey.terms.retry_after_max))


def _too_early(history: History, journey: Journey, record: Act, failed: Post) -> Iterator[Failure]:
    following = next((post for post in journey.posts if post.at > record.at), None)
    if following is None:
        return
    base = min(failed.ended, failed.at + journey.terms.timeout)
    allowed = EARLY + history.slack + (5.0 if history.struck_by(Kind.SLOW, Kind.CUT, Kind.PAUSE) else 0.0)
    if following.at >= base + record.seconds - allowed:
        return
    # A server that was restarted brings it early. Where it says that it comes again, its record is read, and obeyed.
    known = not journey.is_fresh(following) and journey.delivered(following) > record.at + _READ_SECONDS
    known = known and not history.struck_by(Kind.POWER, Kind.ASIDE_FULL, Kind.NO_LEADER, Kind.EDIT, Kind.WALL)
    # And a clock that was set may say that it is due.
    clocks = history.struck_by(Kind.WALL) and history.hits(record.at - 1.0, following.at)
    if history.hits(journey.delivered(failed), record.at, failed.host) or history.hits(
        journey.delivered(following), following.at, following.host
    ):
        # The strike let another `forward` have it, too.
        return
    told = [journey.posts[0].at, journey.delivered(failed), record.at]
    told += [nak.at for nak in journey.between(record.at, following.at, "NAK")]
    if not clocks and (known or not any(history.forgotten(journey.name, at, following.at) for at in told)):
        wait = following.at - base
        words = f"{journey.name}: POSTed again after {wait:.3f} s, the back-off is {record.seconds:g} s"
        yield Failure(Invariant.EARLY, words, journey.event, following.at)


def _counted(history: History, journey: Journey, role: str) -> Iterator[Failure]:
    """No POST without a record of it, unless a strike took the record; and no more of them than the budget."""
    posts = journey.of(role)
    if not posts:
        return
    most, place, uncounted = 1 + _most_retries(history, journey), stage_of(role), 0
    for post, following in pairwise(posts):
        if _went_on_after_the_end(history, journey, post, following):
            words = f"POSTed to {journey.name} {role} again after {post.status}, which is final"
            yield Failure(Invariant.ATTEMPTS, words, journey.event, following.at)
        if _is_counted(history, journey, post, place):
            # Of two that had it in hand after a strike, each goes on from what it has found: one attempt counts twice.
            behind = _found_on_record(history, journey, post, place) < _most_on_record(journey, post, place)
            # And so does one whose record was still on its way when the next had it.
            late = not journey.between(post.at, following.at, "ASIDE")
            uncounted += (behind or late) and bool(history.hits(journey.given_at, following.at))
            continue
        uncounted += 1
        if not _uncounted_by_a_strike(history, journey, post, following):
            words = f"POSTed to {journey.name} {role} again, and the attempt before is not on record"
            yield Failure(Invariant.ATTEMPTS, words, journey.event, following.at)
            return
    uncounted += _taken_back(history, journey, place)
    # A kept connection that broke without a byte of an answer does not end a stage (ADR 057).
    most += any(post.status is None for post in posts[most - 1 :])
    if len(posts) > most + uncounted and not _begun_anew(history, journey, posts):
        words = f"{len(posts)} POSTs to {journey.name} {role}: {most} are allowed, and {uncounted} are not on record"
        yield Failure(Invariant.ATTEMPTS, words, journey.event, posts[-1].at)


def _is_counted(history: History, journey: Journey, post: Post, place: int) -> bool:
    """Has its `forward` recorded one attempt more than it had found on record?

    By the `forward`, since after a strike two may have the event in hand, and each goes on from what it has found.
    """
    again = (one.at for one in journey.posts if one.host == post.host and one.role == post.role and one.at > post.at)
    until = next(again, FOR_EVER)
    told = [one for one in journey.between(post.at, until, "ASIDE") if one.host in ("", post.host) and one.attempts]
    return any(one.attempts[place] > _found_on_record(history, journey, post, place) for one in told)


def _found_on_record(history: History, journey: Journey, post: Post, place: int) -> int:
    """The attempts on record when the event came to that `forward`, or a moment later, the fewest of them."""
    if journey.is_fresh(post):
        # Then no record is looked for.
        return 0
    since, before, found, kept_at = journey.delivered(post), 0, [], 0.0
    for act in journey.between(0.0, post.at, "ASIDE", "PURGE"):
        if act.verb == "PURGE" or act.attempts:
            now, kept_at = act.attempts[place] if act.attempts else 0, act.at
            if act.at > since:
                found.append(now)
            else:
                before = now
    # Power may have taken a record, or all of them.
    return 0 if history.loses_power(kept_at, post.at) else min([before, *found])


def _most_on_record(journey: Journey, post: Post, place: int) -> int:
    """The most attempts that were on record before this POST, since a record of it was deleted last."""
    most = 0
    for act in journey.between(0.0, post.at, "ASIDE", "PURGE"):
        if act.verb == "PURGE" or act.attempts:
            most = max(most, act.attempts[place]) if act.attempts else 0
    return most


def _taken_back(history: History, journey: Journey, place: int) -> int:
    """Attempts that went from the record again, by the late word of one that had the event in hand since a strike."""
    taken, before = 0, 0
    for act in journey.between(0.0, FOR_EVER, "ASIDE", "PURGE"):
        if act.verb == "ASIDE" and not act.attempts:
            continue
        now = act.attempts[place] if act.attempts else 0
        if act.verb == "ASIDE" and now < before and history.hits(journey.given_at, act.at):
            taken += before - now
        before = now
    return taken


def _went_on_after_the_end(history: History, journey: Journey, post: Post, following: Post) -> bool:
    heard = history.heard(journey, post)
    if isinstance(heard, Unsure) or retryable(heard) or heard is None or heard <= 299:
        return False
    return not _uncounted_by_a_strike(history, journey, post, following)


def _uncounted_by_a_strike(history: History, journey: Journey, post: Post, following: Post) -> bool:
    kept = journey.between(post.at, following.at, "ASIDE", "ACK", "ACK_SYNC")
    recorded = next((act.at for act in kept if not act.parked), following.at)
    if history.hits(journey.delivered(post), recorded, post.host) or _no_room(history, post.at, following.at):
        return True
    if history.hits(journey.delivered(following), following.at, following.host) or history.put_back(journey, following):
        # One that stood still had it in hand all the while.
        return True
    return any(history.forgotten(journey.name, at, following.at) for at in (recorded, *(act.at for act in kept)))


def _begun_anew(history: History, journey: Journey, posts: list[Post]) -> bool:
    """Was the record lost, or the count of deliveries, or was there no room for it?

    An event that is stuck gets an attempt now and then.
    """
    first, last = posts[0].at, posts[-1].at
    given = journey.between(journey.delivered(posts[0]), last, "DELIVERY", "ASIDE")
    if _no_room(history, first, last) or any(history.forgotten(journey.name, act.at, last) for act in given):
        return True
    if any(journey.is_fresh(post) for post in posts[1:]):
        return True
    return any(act.stuck for act in journey.between(first, last, "ASIDE"))


def _no_room(history: History, since: float, until: float) -> bool:
    full = (one for one in history.ledger.strikes if one.fault.kind is Kind.ASIDE_FULL)
    return any(one.at <= until and one.until >= since for one in full)


def _most_retries(history: History, journey: Journey) -> int:
    edits = [
        one
        for one in history.ledger.strikes
        if one.fault.kind is Kind.EDIT and one.fault.target == journey.name and one.fault.values[:1] == (0.0,)
    ]
    return journey.terms.retry + len(edits)


def _given_up_too_early(history: History, journey: Journey) -> Iterator[Failure]:
    """A stage that ends with answers that may be tried again has had all of its attempts."""
    ends = [post.at for post in journey.of(DEAD_LETTER)[:1]]
    ends += [act.at for act in journey.between(0.0, FOR_EVER, "ASIDE") if act.parked]
    if not ends:
        return
    end = min(ends)
    role = REPLY if any(post.at <= end for post in journey.of(REPLY)) else SUBSCRIBER
    posts = [post for post in journey.of(role) if post.at <= end]
    if not posts:
        return
    if history.hits(journey.given_at, end, harmless=(Kind.TWO_SCALERS, Kind.STREAM_FULL)):
        # A POST that never arrived was an attempt, too.
        return
    heard = [history.heard(journey, post) for post in posts]
    if any(isinstance(one, Unsure) or not retryable(one) for one in heard):
        return
    if len(posts) < 1 + journey.terms.retry:
        words = f"given up after {len(posts)} POSTs to {journey.name} {role}; {1 + journey.terms.retry} are promised"
        yield Failure(Invariant.ATTEMPTS, words, journey.event, end)


def _record_after_nak(history: History, journey: Journey) -> Iterator[Failure]:
    """The record comes before the NAK: between the two a crash would lose the attempt."""
    if history.struck_by(Kind.ASIDE_FULL, Kind.NO_LEADER, Kind.POWER):
        return
    for nak in journey.between(0.0, FOR_EVER, "NAK"):
        # What comes again after a strike, while a `forward` has it in hand, is given back at once.
        twin = nak.seconds == TWIN_PAUSE and history.hits(0.0, nak.at)
        given = [act.at for act in journey.between(0.0, nak.at, "DELIVERY")]
        # The server has forgotten that it gave the event away: one has it in hand twice, and each POST its own NAK.
        if nak.seconds <= 0.0 or twin or any(history.forgotten(journey.name, at, nak.at) for at in given):
            continue
        posts = [post for post in journey.posts if post.at <= nak.at and post.host in ("", nak.host)]
        if not posts or posts[-1].ended > nak.at + history.slack:
            continue
        if history.hits(journey.delivered(posts[-1]), nak.at, nak.host):
            # The record was lost on its way, or the POST came so late that it was given up before.
            continue
        if not journey.between(posts[-1].at, nak.at, "ASIDE", "NAK")[:-1]:
            words = f"{journey.name}: given back before its attempt was on record"
            yield Failure(Invariant.ATTEMPTS, words, journey.event, nak.at)
