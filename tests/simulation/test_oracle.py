"""The oracle judges small ledgers made by hand: a good one passes, and each promise is broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.faults import Fault, Kind
from tests.simulation.ledger import Act, Leased, Ledger, ParkedCopy, Post, Posted, Strike
from tests.simulation.oracle.failure import Invariant
from tests.simulation.oracle.fates import reported_as_lost
from tests.simulation.oracle.judge import judge
from tests.simulation.oracle.view import History
from tests.simulation.plan import (
    DEAD_LETTER,
    SUBSCRIBER,
    ChannelPlan,
    Deed,
    EventPlan,
    Plan,
    Script,
    Step,
    SubscriptionPlan,
)

S = "c0/s0"
F = "forward-0"


def plan(order: str = "unordered", *, retry: int = 1, dead_letter: bool = False, always: bool = False) -> Plan:
    terms = SubscriptionPlan("s0", retry=retry, order=order, dead_letter=dead_letter, timeout=3.0, delay=1.0)
    events = (EventPlan("e0", 0.0, key="k"), EventPlan("e1", 0.1, key="k"))
    return Plan(1, channels=(ChannelPlan("c0", (terms,)),), events=events, sync_always=always)


def good() -> Ledger:
    """e0 fails once and is then taken, e1 is taken at once."""
    return Ledger(
        posted=[Posted("e0", 0.0, 1, 202, 0.02), Posted("e1", 0.1, 1, 202, 0.12)],
        stored={"e0": [(0.01, 1)], "e1": [(0.11, 2)]},
        posts=[
            Post("e0", S, SUBSCRIBER, 1, 0.3, F, status=503, ended=0.31),
            Post("e1", S, SUBSCRIBER, 1, 0.3, F, taken=True, status=200, ended=0.31),
            Post("e0", S, SUBSCRIBER, 2, 1.5, F, taken=True, status=200, ended=1.51),
        ],
        acts=[
            Act(0.2, "DELIVERY", F, "e0", S, 1, delivered=1),
            Act(0.2, "DELIVERY", F, "e1", S, 2, delivered=1),
            Act(0.32, "ACK", F, "e1", S, 2),
            Act(0.33, "ASIDE", F, "e0", S, 1, seconds=1.0, attempts=(1, 0, 0), stage=SUBSCRIBER),
            Act(0.34, "NAK", F, "e0", S, 1, seconds=1.0),
            Act(1.4, "DELIVERY", F, "e0", S, 1, delivered=2),
            Act(1.52, "ACK_SYNC", F, "e0", S, 1),
            Act(1.53, "PURGE", F, "e0", S, 1),
        ],
        leases=[Leased(0.1, F, S, late=20.1, ended=4.0, answer="2 delivered")],
        counted={S: {"delivered": 2, "retried": 1}},
        quiet_at=4.0,
        last_at=40.0,
    )


def killed(at: float, kind: Kind = Kind.KILL, values: tuple[float, ...] = ()) -> Strike:
    return Strike(Fault(kind, F, at, values=values), at, at + 0.5, () if kind is Kind.POWER else (F,))


def drop(ledger: Ledger, verb: str, event: str) -> None:
    ledger.acts = [act for act in ledger.acts if (act.verb, act.event) != (verb, event)]


def again(ledger: Ledger, at: float = 2.0) -> None:
    ledger.posts.append(Post("e0", S, SUBSCRIBER, 3, at, F, taken=True, status=200, ended=at + 0.01))


def found(plan: Plan, ledger: Ledger) -> set[Invariant]:
    return {failure.invariant for failure in judge(plan, ledger)}


def test_a_good_history_breaks_no_promise():
    assert judge(plan(), good()) == []


def lose(ledger: Ledger) -> None:
    ledger.posts = [post for post in ledger.posts if post.event != "e1"]
    drop(ledger, "ACK", "e1")


def ack_early(ledger: Ledger) -> None:
    ledger.acts[2] = Act(0.305, "ACK", F, "e1", S, 2)
    ledger.posts[1].ended = 0.4


def arrive_unsent(ledger: Ledger) -> None:
    ledger.posts.append(Post("e9", S, SUBSCRIBER, 1, 1.0, F, taken=True, status=200, ended=1.1))


def arrive_refused(ledger: Ledger) -> None:
    ledger.posted[1].status = 413


def answer_before_the_store(ledger: Ledger) -> None:
    ledger.stored["e1"] = [(0.2, 2)]


def store_twice(ledger: Ledger) -> None:
    ledger.stored["e1"].append((0.5, 3))


def garble(ledger: Ledger) -> None:
    ledger.posts[1].intact = False


def while_in_hand(ledger: Ledger) -> None:
    ledger.posts[1].ended = 2.0
    ledger.acts[2] = Act(2.01, "ACK", F, "e1", S, 2)
    ledger.posts.append(Post("e1", S, SUBSCRIBER, 2, 1.0, "forward-1", taken=True, status=200, ended=1.1))


def beyond_the_budget(ledger: Ledger) -> None:
    ledger.posts[2].status, ledger.posts[2].taken = 503, False
    ledger.acts = ledger.acts[:6]
    ledger.acts += [
        Act(1.52, "ASIDE", F, "e0", S, 1, seconds=2.0, attempts=(2, 0, 0), stage=SUBSCRIBER),
        Act(1.53, "NAK", F, "e0", S, 1, seconds=2.0),
        Act(3.9, "DELIVERY", F, "e0", S, 1, delivered=3),
        Act(4.1, "ACK_SYNC", F, "e0", S, 1),
    ]
    again(ledger, 4.0)


def not_on_record(ledger: Ledger) -> None:
    drop(ledger, "ASIDE", "e0")


def nak_before_record(ledger: Ledger) -> None:
    ledger.acts[3], ledger.acts[4] = replace(ledger.acts[4], at=0.33), replace(ledger.acts[3], at=0.34)


def give_up_early(ledger: Ledger) -> None:
    drop(ledger, "ACK_SYNC", "e0")
    ledger.posts = ledger.posts[:2]
    ledger.acts = [act for act in ledger.acts if act.at < 0.33]
    ledger.acts += [Act(0.33, "ASIDE", F, "e0", S, 1, parked=True), Act(0.34, "ACK", F, "e0", S, 1)]
    ledger.parked = [ParkedCopy("e0", S, 1, 1, "gave status 503", 503, SUBSCRIBER)]


def after_a_final_answer(ledger: Ledger) -> None:
    ledger.posts[0].status = 400


def too_early(ledger: Ledger) -> None:
    ledger.posts[2].at = 0.9


def short_back_off(ledger: Ledger) -> None:
    ledger.acts[3] = replace(ledger.acts[3], seconds=0.5)


def many_leases(ledger: Ledger) -> None:
    ledger.leases += [Leased(0.5, F, S, ended=2.0), Leased(0.6, F, S, ended=2.0)]


def long_lease(ledger: Ledger) -> None:
    ledger.leases[0].ended = 60.0


def open_lease(ledger: Ledger) -> None:
    ledger.leases.append(Leased(30.0, F, S))


def open_pull(ledger: Ledger) -> None:
    ledger.pulls = [f"{S} by {F}"]


def timers(ledger: Ledger) -> None:
    ledger.baseline, ledger.at_rest = {f"timers {F}": 2}, {f"timers {F}": 3}


def left(ledger: Ledger) -> None:
    ledger.left = [(S, "e1")]


def wait_long(ledger: Ledger) -> None:
    ledger.posts[1].at, ledger.posts[1].ended = 30.0, 30.01
    ledger.acts = [act for act in ledger.acts if act.event != "e1"]
    ledger.acts.append(Act(30.02, "ACK", F, "e1", S, 2))


def full_hands(ledger: Ledger) -> None:
    ledger.most, ledger.limits = {f"bytes {F}": 101}, {f"bytes {F}": 100}


def leave_a_record(ledger: Ledger) -> None:
    ledger.records = [(S, 1, "stage")]


def count_wrong(ledger: Ledger) -> None:
    ledger.counted[S]["delivered"] = 3


def condition(ledger: Ledger) -> None:
    ledger.conditions = {"c0": {"NoEventsStuck": "EventsStuck"}}


def trouble(ledger: Ledger) -> None:
    ledger.troubles = ["ValueError in a task"]


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        (lose, Invariant.FATE),
        (ack_early, Invariant.FATE),
        (arrive_unsent, Invariant.STRANGE),
        (arrive_refused, Invariant.STRANGE),
        (answer_before_the_store, Invariant.STRANGE),
        (store_twice, Invariant.STRANGE),
        (garble, Invariant.STRANGE),
        (again, Invariant.DUPLICATE),
        (while_in_hand, Invariant.DUPLICATE),
        (beyond_the_budget, Invariant.ATTEMPTS),
        (not_on_record, Invariant.ATTEMPTS),
        (nak_before_record, Invariant.ATTEMPTS),
        (give_up_early, Invariant.ATTEMPTS),
        (after_a_final_answer, Invariant.ATTEMPTS),
        (too_early, Invariant.EARLY),
        (short_back_off, Invariant.EARLY),
        (many_leases, Invariant.LEASES),
        (long_lease, Invariant.LEASES),
        (open_lease, Invariant.ZERO),
        (open_pull, Invariant.ZERO),
        (timers, Invariant.ZERO),
        (left, Invariant.PROGRESS),
        (wait_long, Invariant.PROGRESS),
        (full_hands, Invariant.HANDS),
        (leave_a_record, Invariant.RECORDS),
        (count_wrong, Invariant.COUNTS),
        (condition, Invariant.COUNTS),
        (trouble, Invariant.ERRORS),
    ],
)
def test_each_broken_promise_is_found(spoil: Callable[[Ledger], None], broken: Invariant):
    ledger = good()
    spoil(ledger)
    assert broken in found(plan(), ledger)


@pytest.mark.parametrize("order", ["ordered", "by-key"])
def test_a_later_event_that_goes_first_is_found_where_order_was_asked_for(order: str):
    assert found(plan(order), good()) == {Invariant.ORDER}


def test_a_parked_copy_tells_the_truth():
    ledger = good()
    give_up_early(ledger)
    assert found(plan(retry=0), ledger) == {Invariant.COUNTS}  # two were counted as delivered
    ledger.parked = [replace(ledger.parked[0], status=400)]
    assert Invariant.RECORDS in found(plan(retry=0), ledger)
    ledger.parked = [replace(ledger.parked[0], status=503, reason="")]
    assert Invariant.RECORDS in found(plan(retry=0), ledger)


def test_a_strike_between_post_and_ack_excuses_a_duplicate_unless_it_hit_somebody_else():
    ledger = good()
    drop(ledger, "ACK_SYNC", "e0")
    again(ledger)
    ledger.acts.append(Act(2.02, "ACK_SYNC", F, "e0", S, 1))
    ledger.strikes = [killed(1.51)]
    assert judge(plan(), ledger) == []
    ledger.strikes = [replace(killed(1.51), hosts=("forward-1",))]
    assert found(plan(), ledger) == {Invariant.DUPLICATE, Invariant.ATTEMPTS}


def test_a_back_off_is_as_long_as_the_answer_asks():
    steps = (Step(Deed.ANSWER, 503, 0.01, retry_after=4),)
    asked = plan()
    event = replace(asked.events[0], scripts=(Script(S, SUBSCRIBER, steps),))
    assert found(replace(asked, events=(event, asked.events[1])), good()) == {Invariant.EARLY}


def test_a_strike_excuses_one_post_and_not_a_budget_that_begins_anew():
    ledger = good()
    drop(ledger, "ASIDE", "e0")
    drop(ledger, "NAK", "e0")
    ledger.strikes = [killed(0.32)]
    assert judge(plan(retry=0), ledger) == []
    ledger.posts[2].status, ledger.posts[2].taken = 503, False
    drop(ledger, "ACK_SYNC", "e0")
    ledger.acts.append(Act(1.6, "ASIDE", F, "e0", S, 1, seconds=1.0, attempts=(1, 0, 0), stage=SUBSCRIBER))
    again(ledger, 3.0)
    assert Invariant.ATTEMPTS in found(plan(retry=0), ledger)


def test_a_dead_letter_tells_what_failed():
    ledger = good()
    ledger.posts[2] = Post("e0", S, DEAD_LETTER, 1, 0.33, F, taken=True, status=200, ended=0.34, failed_with=503)
    drop(ledger, "ASIDE", "e0")
    drop(ledger, "NAK", "e0")
    ledger.counted = {}
    assert judge(plan(retry=0, dead_letter=True), ledger) == []
    ledger.posts[2].failed_with = 500
    assert found(plan(retry=0, dead_letter=True), ledger) == {Invariant.COUNTS}


def test_what_power_takes_is_reported_as_lost_unless_the_server_syncs_always():
    ledger = good()
    lose(ledger)
    ledger.strikes = [killed(0.15, Kind.POWER, (0.5, 1.0, 1.0))]
    assert judge(plan(), ledger) == []
    assert reported_as_lost(History(plan(), ledger)) == ["e1"]
    assert Invariant.FATE in found(plan(always=True), ledger)


def test_a_time_line_tells_what_happened_in_order():
    ledger = good()
    ledger.strikes = [killed(1.0)]
    assert ledger.lines()[:4] == [
        "    0.0000  producer     POST e0 (connection 1)",
        "    0.0100  nats         stored e0 as 1",
        "    0.0200  producer     e0: 202",
        "    0.1000  producer     POST e1 (connection 1)",
    ]
    assert "    0.3300  nats         record: c0/s0 1 subscriber [1, 0, 0], wait 1 s, e0" in ledger.lines()
    assert "    1.0000  ** kill forward-0 at 1.000 s" in ledger.lines()
    assert "    1.5100  c0/s0 subscriber e0: answered 200, taken" in ledger.lines()
