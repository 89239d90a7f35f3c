"""The oracle: which promises did a history break? It reads the plan and the ledger, and nothing of the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.simulation.ledger import Ledger
from tests.simulation.oracle.attempts import each_stage_has_its_attempts, no_post_before_its_back_off
from tests.simulation.oracle.facts import (
    counters_say_what_happened,
    hands_are_not_too_full,
    no_errors,
    records_go_with_their_events,
)
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.fates import (
    every_accepted_event_has_its_fate,
    nothing_comes_again_without_need,
    nothing_strange_arrives,
)
from tests.simulation.oracle.leases import (
    everything_is_settled_in_time,
    leases_keep_their_bounds,
    nothing_is_open_at_rest,
)
from tests.simulation.oracle.order import order_is_kept
from tests.simulation.oracle.view import History
from tests.simulation.plan import Plan

INVARIANTS: dict[Invariant, Callable[[History], Iterator[Failure]]] = {
    Invariant.FATE: every_accepted_event_has_its_fate,
    Invariant.STRANGE: nothing_strange_arrives,
    Invariant.DUPLICATE: nothing_comes_again_without_need,
    Invariant.ATTEMPTS: each_stage_has_its_attempts,
    Invariant.EARLY: no_post_before_its_back_off,
    Invariant.ORDER: order_is_kept,
    Invariant.LEASES: leases_keep_their_bounds,
    Invariant.ZERO: nothing_is_open_at_rest,
    Invariant.PROGRESS: everything_is_settled_in_time,
    Invariant.HANDS: hands_are_not_too_full,
    Invariant.RECORDS: records_go_with_their_events,
    Invariant.COUNTS: counters_say_what_happened,
    Invariant.ERRORS: no_errors,
}
"""All but REPLAY, which takes a second run."""


def judge(plan: Plan, ledger: Ledger) -> list[Failure]:
    history = History(plan, ledger)
    return [failure for holds in INVARIANTS.values() for failure in holds(history)]
