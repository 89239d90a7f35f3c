"""How many leases a consumer deserves now, and when to look again.

This module is pure: an `Outlook` holds everything that is known of one consumer. Hints, answers, failures and sweeps
turn it into the next one, and `wanted` reads the number of leases off it. Times are seconds of one monotonic clock that
the caller reads. The module knows JetStream's counters and the answers of leases, and neither NATS, HTTP nor tasks.
Called by `headrace_operator.scaling.scaler`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headrace.core.delivery.lease import PROGRESS_SECONDS, LeaseAnswer

# The first pause is too short to matter to the pods of a busy subscriber; a `forward` that has recovered waits for its
# next lease no longer than the longest (ADR 011).
FIRST_EMPTY_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# Our ack wait is 8 s: after it the events of a broken lease are due again, and nobody reports them.
FIRST_PROBE, LONGEST_PROBE = 8.0, 30.0
# For a lease that we saw break the wait is a little longer, since the server's own timers run late.
ORPHANS_DUE = FIRST_PROBE + 0.5
# A lease looks at its counters at its very end; a hint of the last second may have come after that look.
LAST_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class Counters:
    """The server's counters of a consumer; `waiting` counts open pulls, ours and those of others."""

    pending: int = 0
    ack_pending: int = 0
    max_ack_pending: int = 0
    waiting: int = 0
    paused: bool = False

    @property
    def full(self) -> bool:
        """The ack window is full: only events that were delivered before can come again."""
        return 0 < self.max_ack_pending <= self.ack_pending


@dataclass(frozen=True, slots=True)
class Outlook:
    """The knowledge about one consumer.

    Attributes:
        threshold, max_scale: its subscriber asks for one lease for each `threshold` events, at most `max_scale` leases.
        open: leases that are open now.
        late: open leases whose time is up, and which only wait for slow subscribers.
        ending: late leases whose process is ending.
        trials: open leases that pull and were opened to find out whether `forward` is back.
        known_at: when `counters` were true.
        hinted_at: when a hint came or a lease failed, if no lease has answered since.
        due_at: the earliest delayed retry that a lease has reported.
        dues: the due times of the stage records, the earliest first.
        due_again: how many un-acked events are probably due, beyond those of `due_at` and `dues`.
        probe_at, probes: when the next lease probes for un-acked events without a known due time, and how many have.
        broken_at: when the latest row of failures began, or when the consumer was first seen: its un-acked events then
            belong to another scaler, whose leases may have died with it.
        empties, failures: how many leases in a row found no event though one was pending, and how many in a row broke.
        not_before: no lease is opened earlier.
    """

    threshold: int
    max_scale: int
    counters: Counters = Counters()
    open: int = 0
    late: int = 0
    ending: int = 0
    trials: int = 0
    known_at: float = -math.inf
    hinted_at: float | None = None
    due_at: float | None = None
    dues: tuple[float, ...] = ()
    due_again: int = 0
    probe_at: float | None = None
    probes: int = 0
    broken_at: float = -math.inf
    empties: int = 0
    failures: int = 0
    not_before: float = -math.inf


def counters(info: Mapping[str, Any]) -> Counters:
    """Read one item of CONSUMER.LIST, or an answer of CONSUMER.INFO."""
    return Counters(
        pending=int(info.get("num_pending", 0)),
        ack_pending=int(info.get("num_ack_pending", 0)),
        max_ack_pending=int(info.get("config", {}).get("max_ack_pending", 0)),
        waiting=int(info.get("num_waiting", 0)),
        paused=bool(info.get("paused", False)),
    )


def lag(outlook: Outlook, now: float) -> int:
    """How many events a lease could get that is opened now, as far as is known."""
    known = outlook.counters
    if known.paused:
        return 0
    due = _past(outlook.due_at, now) + bisect_right(outlook.dues, now) + outlook.due_again
    due = max(due, max(1, orphans(outlook, now)) if _past(outlook.probe_at, now) else 0)
    if known.full:
        return due
    return max(known.pending + due, 0 if outlook.hinted_at is None else 1)


def orphans(outlook: Outlook, now: float) -> int:
    """How many un-acked events of broken leases are due again; nobody reports each of them."""
    if not outlook.broken_at + ORPHANS_DUE <= now <= outlook.broken_at + ORPHANS_DUE + LONGEST_PROBE:
        return 0
    return max(0, outlook.counters.ack_pending - _with_a_time(outlook))


def wanted(outlook: Outlook, now: float) -> int:
    """How many leases should be open now; the leases beyond that number close after their answer."""
    if now < outlook.not_before:
        return 0
    return min(math.ceil(lag(outlook, now) / outlook.threshold), outlook.max_scale)


def short(outlook: Outlook, now: float) -> int:
    """How many more leases to open now. A late lease pulls no more, but holds its pod until the pod is ending."""
    going = outlook.ending
    short = min(wanted(outlook, now) - (outlook.open - outlook.late), outlook.max_scale - (outlook.open - going))
    # After a failure one trial is opened for all others, beside the leases that have not broken.
    return min(short, 1 - outlook.trials) if outlook.failures else short


def look_again_at(outlook: Outlook, now: float) -> float | None:
    """The next moment at which `wanted` may rise with time alone."""
    moments = (
        outlook.not_before,
        outlook.due_at,
        outlook.probe_at,
        *outlook.dues[_past_dues(outlook, now) :][:1],
    )
    ahead = [moment for moment in moments if moment is not None and moment > now]
    return min(ahead, default=None)


def reason(outlook: Outlook, now: float) -> str:
    """The reason for a lease, for the log."""
    if outlook.hinted_at is not None:
        return "hint"
    if outlook.counters.pending and not outlook.counters.full:
        return "pending"
    return "probe" if _past(outlook.probe_at, now) else "due"


def hinted(outlook: Outlook, now: float) -> Outlook:
    """A hint says that the stream has a new event."""
    return replace(outlook, hinted_at=now)


def opened(outlook: Outlook, now: float) -> Outlook:
    """A lease is being opened: it takes over the events that called for it."""
    probing = _past(outlook.probe_at, now)
    return replace(
        outlook,
        open=outlook.open + 1,
        trials=outlook.trials + (outlook.failures > 0),
        hinted_at=None,
        due_at=None if _past(outlook.due_at, now) else outlook.due_at,
        dues=outlook.dues[_past_dues(outlook, now) :],
        due_again=0,
        probe_at=None if probing else outlook.probe_at,
        probes=outlook.probes + probing,
    )


def answered(outlook: Outlook, answer: LeaseAnswer, now: float, *, cut: bool = False) -> Outlook:
    """A lease has ended well.

    Args:
        cut: it was so short that its end says nothing about the events that wait.
    """
    late = hint_is_late(outlook, now)
    known = replace(outlook.counters, pending=answer.pending, ack_pending=answer.ack_pending, waiting=0)
    due_at, due_again = outlook.due_at, 0
    if answer.next_due_seconds is not None:
        due_at = min(now + answer.next_due_seconds, math.inf if due_at is None else due_at)
        if answer.next_due_seconds <= 0 and answer.moved:
            # The lease ran to its end, and more events were due. Nobody knows how many, so each time one more lease is
            # opened.
            due_again = min(answer.ack_pending, outlook.threshold * outlook.open + 1)
    if cut and answer.moved:
        # All events of broken leases may be due without a known due time.
        due_again = max(due_again, min(answer.ack_pending, 1))
    # An event that was stored after the lease's last look does not prove that the lease could get none.
    promised = (answer.pending > 0 and not known.full) or (answer.ack_pending > 0 and _past(due_at, now) > 0)
    empty = promised and not answer.moved and not late
    empties = outlook.empties + 1 if empty else 0
    # Failures of earlier leases are no reason to wait any more.
    free_at = -math.inf if outlook.failures else outlook.not_before
    after = replace(
        outlook,
        counters=known,
        open=outlook.open - 1,
        known_at=now,
        hinted_at=outlook.hinted_at if late else None,
        due_at=due_at,
        due_again=due_again,
        probes=0 if answer.moved else outlook.probes,
        empties=empties,
        failures=0,
        not_before=now + empty_pause(empties) if empty else free_at,
    )
    return _probing(after, now)


def hint_is_late(outlook: Outlook, now: float) -> bool:
    """Did a hint come after the last look of the lease that answers now?"""
    return outlook.hinted_at is not None and outlook.hinted_at >= now - LAST_LOOK


def abandoned(outlook: Outlook) -> Outlook:
    """The opener has given up a lease."""
    return replace(outlook, open=outlook.open - 1)


def seen(outlook: Outlook, known: Counters, dues: tuple[float, ...] | None, asked_at: float, now: float) -> Outlook:
    """The server has answered a question about the consumer.

    Args:
        dues: the due times of the stage records, also those that passed before anybody reported them; None when unread.
        asked_at: when the server was asked; a lease's answer or a hint since then counts more.
    """
    owed = outlook.dues[: _past_dues(outlook, now)]
    after = replace(outlook, dues=outlook.dues if dues is None else tuple(sorted((*owed, *dues))))
    if outlook.known_at < asked_at:
        hint = outlook.hinted_at if outlook.hinted_at is not None and outlook.hinted_at >= asked_at else None
        after = replace(after, counters=known, known_at=asked_at, hinted_at=hint)
    return _probing(after, now)


def note_pending(outlook: Outlook, pending: int, now: float) -> Outlook:
    """An open lease reports how many messages nobody has pulled; a sweep would find that number some seconds later."""
    if now < outlook.known_at + PROGRESS_SECONDS:
        # The lease's latest message may be older than our counters.
        return outlook
    return replace(outlook, counters=replace(outlook.counters, pending=pending))


def overdue(outlook: Outlook) -> Outlook:
    """The time of an open lease is up, and the lease has not answered."""
    return replace(outlook, late=outlook.late + 1)


def ending(outlook: Outlook, now: float) -> Outlook:
    """The process of an open lease is to end; another lease gets the events that this one has not pulled."""
    return hinted(replace(outlook, late=outlook.late + 1, ending=outlook.ending + 1), now)


def caught_up(outlook: Outlook, *, ended: bool = False) -> Outlook:
    """A late lease has ended in some way; `ended`: it counted as `ending`."""
    return replace(outlook, late=outlook.late - 1, ending=outlook.ending - ended)


def empty_pause(empties: int) -> float:
    """Seconds to wait after that many leases in a row have delivered nothing though an event was pending."""
    return min(LONGEST_PAUSE, FIRST_EMPTY_PAUSE * 2.0 ** min(empties - 1, 16))


def probe_interval(probes: int) -> float:
    """Seconds until the next lease for un-acked events whose due time nobody knows."""
    return min(LONGEST_PROBE, FIRST_PROBE * 2.0 ** min(probes, 16))


def _probing(outlook: Outlook, now: float) -> Outlook:
    """Plan a probe while un-acked events without a due time exist, and neither a pull nor a lease of ours is open."""
    known = outlook.counters
    if not known.ack_pending:
        # No event is un-acked, so none can come back, whatever was reported before.
        return replace(outlook, due_at=None, dues=(), due_again=0, probe_at=None, probes=0)
    if known.ack_pending <= _with_a_time(outlook) or known.waiting or outlook.open or known.paused:
        return replace(outlook, probe_at=None)
    if outlook.probe_at is not None:
        return outlook
    moment = now + probe_interval(outlook.probes)
    # A lease opened in between ends just before the events of the broken one are due. So the probe comes when they are
    # due, not a whole interval later.
    due = outlook.broken_at + ORPHANS_DUE
    return replace(outlook, probe_at=min(moment, due) if now < due else moment)


def _with_a_time(outlook: Outlook) -> int:
    """How many un-acked events have a known due time."""
    return max(len(outlook.dues), 0 if outlook.due_at is None else 1)


def _past(moment: float | None, now: float) -> int:
    return int(moment is not None and moment <= now)


def _past_dues(outlook: Outlook, now: float) -> int:
    return bisect_right(outlook.dues, now)
