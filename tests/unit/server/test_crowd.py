"""Who goes when there are too many connections, and whose turn it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

import pytest

from headrace.server.crowd import FEW, Crowd, Ending

NOW = 1000.0


@dataclass(eq=False)
class Someone:
    """A member that notes that it had to go."""

    idle: float | None = None
    late: float | None = None
    spared: float | None = None
    gone: list[bool] = field(default_factory=list)

    def idle_since(self) -> float | None:
        return self.idle

    def waited_since(self) -> float | None:
        return self.late

    def spared_since(self) -> float | None:
        return self.spared

    def holds_since(self) -> float | None:
        return self.late

    def make_room(self) -> None:
        self.gone.append(True)


class Clock:
    """The time of a loop."""

    def time(self) -> float:
        return NOW


CLOCK = cast("asyncio.AbstractEventLoop", Clock())
OLD_IDLE = Someone(idle=NOW - 50)
IDLE = Someone(idle=NOW - 20)
OLD_LATE = Someone(late=NOW - 60)
NEW_IDLE = Someone(idle=NOW - 0.1)
NEW_LATE = Someone(late=NOW - 0.2)
SERVED = Someone()
OLD_SPARED = Someone(spared=NOW - 50)
NEW_SPARED = Someone(spared=NOW - 0.15)
NEWEST_SPARED = Someone(spared=NOW - 0.05)


@pytest.mark.parametrize(
    ("there", "goes"),
    [
        pytest.param((IDLE, OLD_LATE, OLD_IDLE, SERVED), OLD_IDLE, id="the one that has been idle longest"),
        pytest.param((NEW_IDLE, OLD_LATE, SERVED), OLD_LATE, id="rather one that has let us wait than a newcomer"),
        pytest.param((NEW_LATE, NEW_IDLE), NEW_IDLE, id="of newcomers one that has sent nothing"),
        pytest.param((SERVED, NEW_LATE), NEW_LATE, id="whoever does not wait for us"),
        pytest.param((NEW_IDLE, OLD_SPARED, SERVED), OLD_SPARED, id="one that has long done without its answer"),
        pytest.param((NEW_IDLE, NEW_SPARED, NEW_LATE), NEW_SPARED, id="one that has sent ahead rather than a newcomer"),
        pytest.param((NEW_IDLE, NEWEST_SPARED), NEW_IDLE, id="a newcomer that says nothing rather than a request"),
    ],
)
def test_room_is_made_by_whoever_has_least_to_lose(there: tuple[Someone, ...], goes: Someone) -> None:
    crowd = Crowd(most=len(there))
    for one in there:
        one.gone.clear()
        assert crowd.enter(one, CLOCK)
    assert crowd.enter(Someone(idle=NOW), CLOCK)
    assert [one for one in there if one.gone] == [goes]
    assert (len(crowd), crowd.closed[Ending.CROWDED]) == (len(there), 1)


async def test_where_no_more_bytes_may_wait_the_older_half_of_those_who_hold_some_goes() -> None:
    now = asyncio.get_running_loop().time()
    old, older, new = (Someone(late=since) for since in (now - 2, now - 3, now - 1.5))
    others = [SERVED, Someone(idle=NOW - 50), Someone(spared=NOW - 50)]
    crowd = Crowd(most=10, most_waiting=100)
    for one in (old, older, new, *others):
        assert crowd.enter(one, CLOCK)
    assert crowd.hold(90, 0)
    assert not crowd.hold(20, 0)
    assert not older.gone, "not while somebody counts"
    await asyncio.sleep(0)
    assert [one for one in (old, older, new, *others) if one.gone] == [old, older]


@pytest.mark.parametrize(("count", "going"), [(FEW, 0), (FEW + 1, (FEW + 2) // 2)])
async def test_large_events_that_are_sent_at_once_are_no_flood_unless_they_are_many(count: int, going: int) -> None:
    there = [Someone(late=asyncio.get_running_loop().time()) for _ in range(count)]
    crowd = Crowd(most=2 * count, most_waiting=100)
    for one in there:
        assert crowd.enter(one, CLOCK)
    assert crowd.hold(90, 0)
    assert not crowd.hold(20, 0)
    await asyncio.sleep(0)
    assert sum(bool(one.gone) for one in there) == going


def test_where_all_wait_for_us_nobody_goes_and_nobody_comes() -> None:
    crowd = Crowd(most=2)
    for _ in range(2):
        assert crowd.enter(Someone(), CLOCK)
    assert not crowd.enter(Someone(), CLOCK)
    assert (len(crowd), crowd.closed[Ending.CROWDED]) == (2, 1)


async def test_each_has_its_turn_and_one_only_in_each_pass_of_the_loop() -> None:
    crowd, loop, had = Crowd(), asyncio.get_running_loop(), []

    def again(name: str, times: int) -> None:
        had.append(name)
        if times:
            crowd.ask_turn(lambda: again(name, times - 1), loop)

    for name in ("one", "two"):
        crowd.ask_turn(lambda name=name: again(name, 2), loop)
    passes = []
    for _ in range(7):
        await asyncio.sleep(0)
        passes.append(len(had))
    assert had == ["one", "two"] * 3
    assert passes == [1, 2, 3, 4, 5, 6, 6]


async def test_a_fault_in_one_turn_costs_the_others_nothing() -> None:
    crowd, loop, had = Crowd(), asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda *_: had.append("fault"))
    crowd.ask_turn(lambda: 1 // 0, loop)
    crowd.ask_turn(lambda: had.append("turn"), loop)
    for _ in range(3):
        await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert had == ["fault", "turn"]
