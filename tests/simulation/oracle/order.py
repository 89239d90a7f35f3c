"""Invariant 6: no event goes first while an earlier one, of its key where keys count, is not settled.

First POSTs only: a server that was killed may bring an event again behind later ones, and a frozen `forward` may finish
an old POST late; neither is promised away (ADR 015).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.faults import Kind
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.view import History, Journey


def order_is_kept(history: History) -> Iterator[Failure]:
    if history.struck_by(Kind.POWER):
        # The server gives sequences anew.
        return
    lines: dict[tuple[str, str], list[tuple[int, Journey]]] = {}
    for journey in history.journeys():
        kind, key = journey.terms.order, history.events[journey.event].key
        stored = history.ledger.stored.get(journey.event)
        if not stored or kind == "unordered" or (kind == "by-key" and key is None):
            continue
        lines.setdefault((journey.name, (key or "") if kind == "by-key" else ""), []).append((stored[0][1], journey))
    for (name, _), line in lines.items():
        line.sort(key=lambda one: one[0])
        for (_, earlier), (_, later) in pairwise(line):
            if not later.posts or not earlier.acts:
                continue
            first = later.posts[0].at
            if earlier.acked() <= first or _not_sure(history, later, first):
                continue
            words = f"POSTed to {name} before {earlier.event} was settled, which is earlier"
            yield Failure(Invariant.ORDER, words, later.event, first)


def _not_sure(history: History, journey: Journey, first: float) -> bool:
    if any(name == journey.name and at <= first for at, name in history.ledger.overdue):
        return True
    deleted = any(one.fault.target == journey.name and 1.0 in one.fault.values for one in history.ledger.strikes)
    return deleted or (journey.terms.order == "by-key" and history.struck_by(Kind.ASIDE_FULL))
