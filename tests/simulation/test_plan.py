"""Plans: the seed alone decides them, JSON keeps them, and what makes them smaller leaves what fails."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.faults import Kind
from tests.simulation.plan import Plan, draw, from_json
from tests.simulation.shrink import shrunk


def test_a_seed_gives_one_plan():
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_a_kept_plan_is_the_plan():
    for seed in range(50):
        assert from_json(draw(seed).to_json()) == draw(seed)


def test_an_event_without_another_keeps_its_scripts():
    plan = next(plan for plan in map(draw, range(100)) if len(plan.events) > 2 and plan.events[2].scripts)
    assert replace(plan, events=plan.events[2:]).events[0] == plan.events[2]


def test_every_kind_of_fault_is_drawn():
    assert {fault.kind for seed in range(500) for fault in draw(seed).faults} == set(Kind)


def test_a_failing_plan_is_made_as_small_as_it_fails():
    big = next(
        plan for plan in map(draw, range(200)) if len(plan.faults) > 2 and len(plan.events) > 10 and plan.shuffle
    )
    culprit, fault = big.events[5].id, big.faults[1].kind

    def fails(plan: Plan) -> bool:
        return plan.event(culprit) is not None and any(one.kind is fault for one in plan.faults)

    small = shrunk(big, fails)
    assert [event.id for event in small.events] == [culprit]
    assert [one.kind for one in small.faults] == [fault]
    assert not small.shuffle
    assert small.events[0].scripts == ()
