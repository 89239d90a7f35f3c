"""Which consumers the scaler thinks about, and when."""

from __future__ import annotations

import asyncio
import time

import pytest

from headrace_operator.scaling.agenda import Agenda

A, B = ("S", "a"), ("S", "b")


async def nothing(agenda: Agenda, seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await agenda.take()


async def test_what_has_changed_is_taken_once() -> None:
    agenda = Agenda()
    agenda.add((A, B))
    agenda.add((A,))
    assert await agenda.take() == [A, B]
    await nothing(agenda, 0.05)


async def test_what_is_planned_comes_when_its_time_has_come_and_the_last_plan_counts() -> None:
    agenda = Agenda()
    agenda.plan(A, time.monotonic() + 60.0)
    agenda.plan(A, time.monotonic() + 0.05)
    agenda.plan(B, time.monotonic() + 0.02)
    agenda.plan(B, None)
    assert await agenda.take() == [A]
    await nothing(agenda, 0.1)


async def test_what_changes_meanwhile_is_not_kept_waiting_by_what_is_planned() -> None:
    agenda = Agenda()
    agenda.plan(A, time.monotonic() + 60.0)
    asyncio.get_running_loop().call_later(0.02, agenda.add, (B,))
    assert await agenda.take() == [B]


async def test_plans_that_change_all_the_time_do_not_pile_up() -> None:
    agenda = Agenda()
    for number in range(10_000):
        agenda.plan(A, time.monotonic() + 60.0 + number)
    assert len(agenda._moments) < 100
    agenda.plan(A, time.monotonic())
    assert await agenda.take() == [A]
