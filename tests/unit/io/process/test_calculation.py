"""A long calculation keeps nobody waiting: it runs beside the loop, or in slices."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from headrace.io.process.calculation import MOST_ON_THE_LOOP, calculate, in_slices


def _where() -> tuple[str, bool]:
    return threading.current_thread().name, gc.isenabled()


async def test_few_things_are_calculated_on_the_spot_and_many_on_the_thread() -> None:
    here, collecting = _where()

    assert await calculate(MOST_ON_THE_LOOP, _where) == (here, collecting)
    thread, collected = await calculate(MOST_ON_THE_LOOP + 1, _where)

    assert thread != here
    assert not collected
    assert gc.isenabled() == collecting


async def test_a_calculation_that_fails_fails_for_its_caller_and_the_collector_goes_on() -> None:
    collecting = gc.isenabled()

    with pytest.raises(ValueError, match="invalid literal"):
        await calculate(1_000_000, int, "no number")

    assert gc.isenabled() == collecting


async def test_the_loop_turns_while_the_thread_calculates() -> None:
    def calculation() -> int:
        end = time.thread_time() + 0.5
        turns = 0
        while time.thread_time() < end:
            turns += 1
        return turns

    done, looks = asyncio.ensure_future(calculate(1_000_000, calculation)), 0
    while not done.done():
        looks += 1
        await asyncio.sleep(0.001)

    assert looks > 10


async def test_a_loop_over_many_things_lets_others_in_and_keeps_their_order() -> None:
    seen: list[int] = []
    between: list[int] = []

    async def other() -> None:
        while True:
            between.append(len(seen))
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    async for each in in_slices(range(1_000)):
        seen.append(each)  # the other one looks meanwhile
    task.cancel()

    assert seen == list(range(1_000))
    assert len(between) >= 1_000 // MOST_ON_THE_LOOP
