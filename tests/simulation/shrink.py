"""A failing plan made small: fewer faults, events and subscriptions, no shuffling, shorter scripts.

A plan that lacks something runs differently throughout, since latencies are drawn as it runs. So each smaller plan is
tried with a few seeds; what counts is that the same promise is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.plan import ChannelPlan, EventPlan, Plan

Fails = Callable[[Plan], bool]
"""Does this plan break the promise, too?"""

SEEDS = 3
MOST_RUNS = 600


def shrunk(plan: Plan, fails: Fails) -> Plan:
    """The smallest plan found that still fails."""
    trial = _Trial(fails)
    while True:
        before = plan
        for smaller in (_fewer_faults, _fewer_events, _fewer_subscriptions, _plainer, _shorter_scripts):
            plan = smaller(plan, trial)
        if plan == before or trial.over:
            return plan


class _Trial:
    """Tries plans, and counts."""

    def __init__(self, fails: Fails) -> None:
        self._fails = fails
        self._runs = 0

    @property
    def over(self) -> bool:
        return self._runs >= MOST_RUNS

    def best(self, candidates: Iterator[Plan]) -> Plan | None:
        """The first of the plans that fails; None if none does."""
        for candidate in candidates:
            for seed in range(candidate.seed, candidate.seed + SEEDS):
                if self.over:
                    return None
                self._runs += 1
                again = replace(candidate, seed=seed)
                if self._fails(again):
                    return again
        return None

    def reduce(self, plan: Plan, smaller: Callable[[Plan], Iterator[Plan]]) -> Plan:
        """Make it smaller as long as that can be done."""
        while (found := self.best(smaller(plan))) is not None:
            plan = found
        return plan


def _fewer_faults(plan: Plan, trial: _Trial) -> Plan:
    def smaller(plan: Plan) -> Iterator[Plan]:
        for leave in range(len(plan.faults)):
            yield replace(plan, faults=plan.faults[:leave] + plan.faults[leave + 1 :])

    return trial.reduce(plan, smaller)


def _fewer_events(plan: Plan, trial: _Trial) -> Plan:
    def smaller(plan: Plan) -> Iterator[Plan]:
        size = len(plan.events) // 2
        while size:
            for begin in range(0, len(plan.events), size):
                rest = plan.events[:begin] + plan.events[begin + size :]
                if rest:
                    yield replace(plan, events=rest)
            size //= 2

    return trial.reduce(plan, smaller)


def _fewer_subscriptions(plan: Plan, trial: _Trial) -> Plan:
    def smaller(plan: Plan) -> Iterator[Plan]:
        if len(plan.channels) > 1 and all(event.channel < len(plan.channels) - 1 for event in plan.events):
            yield replace(plan, channels=plan.channels[:-1])
        for place, channel in enumerate(plan.channels):
            for leave in range(len(channel.subscriptions) if len(channel.subscriptions) > 1 else 0):
                rest = channel.subscriptions[:leave] + channel.subscriptions[leave + 1 :]
                less = ChannelPlan(channel.name, rest)
                names = {f"{channel.name}/{one.name}" for one in rest}
                if all(fault.target in names or "/" not in fault.target for fault in plan.faults):
                    yield replace(plan, channels=(*plan.channels[:place], less, *plan.channels[place + 1 :]))

    return trial.reduce(plan, smaller)


def _plainer(plan: Plan, trial: _Trial) -> Plan:
    """Without what may not matter: shuffling, slow links, odd events."""
    plain = {"shuffle": False, "latency": (0.0001, 0.002), "sync_always": False, "replicated": False}
    for name, value in plain.items():
        if getattr(plan, name) != value:
            plan = trial.best(iter([replace(plan, **{name: value})])) or plan
    usual = {"twice": None, "structured": False, "kept": True, "size": 10, "tries": 8, "producer": 0}
    for name, value in usual.items():
        if any(getattr(event, name) != value for event in plan.events):
            events = tuple(replace(event, **{name: value}) for event in plan.events)
            plan = trial.best(iter([replace(plan, events=events)])) or plan
    return plan


def _shorter_scripts(plan: Plan, trial: _Trial) -> Plan:
    def smaller(plan: Plan) -> Iterator[Plan]:
        for place, event in enumerate(plan.events):
            for less in _less_scripted(event):
                yield replace(plan, events=(*plan.events[:place], less, *plan.events[place + 1 :]))

    return trial.reduce(plan, smaller)


def _less_scripted(event: EventPlan) -> Iterator[EventPlan]:
    for place, script in enumerate(event.scripts):
        others = event.scripts[:place], event.scripts[place + 1 :]
        yield replace(event, scripts=others[0] + others[1])
        for leave in range(len(script.steps)):
            shorter = replace(script, steps=script.steps[:leave] + script.steps[leave + 1 :])
            yield replace(event, scripts=(*others[0], shorter, *others[1]))
