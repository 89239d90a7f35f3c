"""A long calculation keeps nobody waiting: it runs beside the loop, or in slices."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from headrace.io.process import calculation
from headrace.io.process.calculation import LONGEST_TURN, MOST_ON_THE_LOOP, calculate, in_slices, undertaking


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


async def test_the_thread_gives_the_loop_its_turn_soon() -> None:
    await calculate(1_000_000, int)

    assert sys.getswitchinterval() == pytest.approx(LONGEST_TURN)


class _Value:
    """Counts how many of its kind have gone."""

    gone = 0

    def __del__(self) -> None:
        _Value.gone += 1


def _many() -> dict[str, dict[str, dict[str, _Value]]]:
    return {"children": {"Deployment.apps/v1": {f"shop/{index}": _Value() for index in range(5_000)}}}


async def test_what_a_large_call_has_made_goes_in_slices_and_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _Value.gone, seen = 0, [0]
    loop = asyncio.get_running_loop()
    tell = loop.call_soon_threadsafe

    def lingering(*arguments: Any, **named: Any) -> Any:
        # The thread's turn ends here: the loop has the result long before the thread goes on.
        handle = tell(*arguments, **named)
        time.sleep(0.2)
        return handle

    monkeypatch.setattr(loop, "call_soon_threadsafe", lingering)

    async def look() -> None:
        while True:
            seen.append(_Value.gone)
            await asyncio.sleep(0)

    looker = asyncio.ensure_future(look())
    async with undertaking(1_000_000) as undertaken:
        await undertaken.calculate(1_000_000, _many)
    looker.cancel()

    seen.append(_Value.gone)
    assert seen[-1] == 5_000
    assert max(later - before for before, later in pairwise(seen)) <= MOST_ON_THE_LOOP


async def test_a_value_that_somebody_else_has_is_left_whole() -> None:
    held = _many()

    async with undertaking(1_000_000) as undertaken:
        await undertaken.calculate(1_000_000, lambda: held)

    assert len(held["children"]["Deployment.apps/v1"]) == 5_000


async def test_the_collector_waits_for_the_end_of_large_calls_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gc.isenabled()
    async with undertaking(1_000_000), undertaking(1_000_000):
        assert not gc.isenabled()
    assert gc.isenabled()
    async with undertaking(1):
        assert gc.isenabled()

    monkeypatch.setattr(calculation, "LONGEST_UNCOLLECTED", 0.0)
    async with undertaking(1_000_000):
        async with undertaking(1_000_000):
            assert not gc.isenabled()
        assert gc.isenabled()
        async with undertaking(1_000_000):
            assert gc.isenabled()
