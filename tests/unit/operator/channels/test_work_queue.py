"""The operator's queue: each key once at a time, the longest waiting first, with back-off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from headrace_operator.channels.work_queue import WorkQueue
from tests.support.waiting import until

Work = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def working(work: Work, workers: int = 2, share: int | None = None) -> AsyncIterator[WorkQueue[str]]:
    """Keys with the same first letter are of one owner."""
    queue: WorkQueue[str] = WorkQueue(lambda key: key[0])
    task = asyncio.create_task(queue.run(work, workers, share))
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.wait([task])


class Held:
    """Work that lasts until it is let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.at_once: dict[str, int] = {}
        self.most_at_once: dict[str, int] = {}
        self.go = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.begun.append(key)
        self.at_once[key] = self.at_once.get(key, 0) + 1
        self.most_at_once[key] = max(self.most_at_once.get(key, 0), self.at_once[key])
        await self.go.wait()
        self.at_once[key] -= 1


async def test_a_key_is_never_worked_on_twice_at_once_and_its_changes_are_coalesced() -> None:
    held = Held()
    async with working(held, workers=4) as queue:
        queue.add("a")
        await until("it has begun", lambda: held.begun == ["a"])
        for _ in range(10):
            queue.add("a")
        await asyncio.sleep(0.05)
        assert held.begun == ["a"]
        held.go.set()
        await until("it has been done again", lambda: held.begun == ["a", "a"])
        await asyncio.sleep(0.05)
    assert held.begun == ["a", "a"]
    assert held.most_at_once == {"a": 1}


async def test_so_many_are_worked_on_at_once_and_the_others_wait_in_line() -> None:
    held = Held()
    async with working(held, workers=2) as queue:
        for key in "abcdc":
            queue.add(key)
        await until("two have begun", lambda: held.begun == ["a", "b"])
        queue.add("a")
        assert (queue.busy, queue.depth) == (2, 2)
        held.go.set()
        await until("all are done", lambda: queue.busy == 0 and queue.depth == 0)
    assert held.begun == ["a", "b", "c", "d", "a"]


async def test_failures_in_a_row_wait_longer_and_success_ends_that() -> None:
    async with working(Held()) as queue:
        pauses = [queue.note_failure("a") for _ in range(12)]
        assert 0.1 <= pauses[0] <= 0.2
        assert 0.4 <= pauses[2] <= 0.8
        assert 30.0 <= pauses[11] <= 60.0
        assert queue.failing == 1
        queue.note_success("a")
        assert queue.failing == 0
        assert queue.note_failure("a") <= 0.2


async def test_what_is_planned_comes_in_its_time_and_the_earliest_plan_counts() -> None:
    held = Held()
    held.go.set()
    async with working(held) as queue:
        queue.add_after("a", 60.0)
        queue.add_after("a", 0.05)
        queue.add_after("a", 0.1)
        queue.add_after("b", 0.0)
        await until("both were done", lambda: sorted(held.begun) == ["a", "b"])
        await asyncio.sleep(0.2)
    assert sorted(held.begun) == ["a", "b"]


async def test_what_is_done_before_its_time_is_not_done_again_then_and_what_is_gone_never() -> None:
    held = Held()
    held.go.set()
    async with working(held) as queue:
        queue.add_after("a", 0.1)
        queue.add("a")
        queue.add_after("gone", 0.1)
        queue.forget("gone")
        await asyncio.sleep(0.3)
    assert held.begun == ["a"]


async def test_work_that_hangs_leaves_workers_to_others_and_its_owners_rest_waits_in_line() -> None:
    held = Held()
    async with working(held, workers=4, share=2) as queue:
        for key in ("a1", "a2", "a3", "a4", "b1"):
            queue.add(key)
        await until("b's turn has come", lambda: held.begun == ["a1", "a2", "b1"])
        queue.add("a3")
        queue.add("c1")
        await until("and c's", lambda: held.begun == ["a1", "a2", "b1", "c1"])
        assert (queue.busy, queue.depth) == (4, 2)
        held.go.set()
        await until("all are done", lambda: queue.busy == 0 and queue.depth == 0)
    assert held.begun[4:] == ["a3", "a4"]


async def test_a_share_is_given_back_whoever_has_waited_for_it() -> None:
    done: list[str] = []

    async def work(key: str) -> None:
        await asyncio.sleep(0)
        done.append(key)

    async with working(work, workers=3, share=1) as queue:
        for _ in range(3):
            for key in ("a1", "a2", "b1", "a3", "b2"):
                queue.add(key)
            await until("all are done", lambda: queue.busy == 0 and queue.depth == 0)
    assert sorted(done) == sorted(["a1", "a2", "a3", "b1", "b2"] * 3)
