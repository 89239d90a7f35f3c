"""A queue of keys to work on: each once at a time, the longest waiting first, with back-off for those that fail.

The queue knows keys, time and chance, and not what the work is. A key that is added while it is worked on is worked on
again. Each key has an owner, and no owner has more than a share of the workers: work that hangs holds up the other keys
of its owner only.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0


class WorkQueue(Generic[Key]):
    """The queue of one loop."""

    def __init__(self, owner: Callable[[Key], Hashable] = lambda key: key) -> None:
        """Args:
        owner: gives the owner of a key; by default each key is its own.
        """
        self._owner = owner
        self._waiting: deque[Key] = deque()
        # Keys of owners that have their share of the workers.
        self._held: dict[Hashable, deque[Key]] = {}
        self._shares: Counter[Hashable] = Counter()
        self._queued: set[Key] = set()
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._later: dict[Key, float] = {}
        self._moments: list[tuple[float, int, Key]] = []
        self._serial = 0
        self._timer: asyncio.TimerHandle | None = None
        self._filled = asyncio.Event()

    @property
    def depth(self) -> int:
        """Keys that wait for a free worker."""
        return len(self._queued)

    @property
    def busy(self) -> int:
        """Keys that are worked on."""
        return len(self._busy)

    @property
    def failing(self) -> int:
        """Keys whose last work failed."""
        return len(self._failures)

    def works_on(self, key: Key) -> bool:
        return key in self._busy

    def add(self, key: Key) -> None:
        """Work on the key soon; it may be in the queue already."""
        self._later.pop(key, None)
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._waiting.append(key)
            self._filled.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Work on the key after that time, or earlier if another call says so."""
        moment = asyncio.get_running_loop().time() + max(0.0, seconds)
        planned = self._later.get(key)
        if planned is not None and planned <= moment:
            return
        self._later[key] = moment
        self._serial += 1
        heapq.heappush(self._moments, (moment, self._serial, key))
        self._set_timer()

    def note_failure(self, key: Key) -> float:
        """Work on it again after a pause that grows with each failure in a row, up to a minute; gives the pause."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 20))
        pause = longest * (0.5 + random.random() / 2)
        self.add_after(key, pause)
        return pause

    def note_success(self, key: Key) -> None:
        self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """The key is gone: nothing is planned for it any more."""
        self._failures.pop(key, None)
        self._later.pop(key, None)

    async def run(self, work: Callable[[Key], Awaitable[None]], workers: int, share: int | None = None) -> None:
        """Work until cancelled. `work` must not raise: any exception ends the queue.

        Args:
            share: how many keys of one owner may be worked on at a time; by default as many as there are workers.
        """
        async with asyncio.TaskGroup() as tasks:
            for number in range(workers):
                tasks.create_task(self._work(work, share or workers), name=f"worker-{number}")

    async def _work(self, work: Callable[[Key], Awaitable[None]], share: int) -> None:
        while True:
            key = await self._next(share)
            self._queued.discard(key)
            self._busy.add(key)
            try:
                await work(key)
            finally:
                self._busy.discard(key)
                self._give_back(self._owner(key))
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    async def _next(self, share: int) -> Key:
        while True:
            while not self._waiting:
                self._filled.clear()
                await self._filled.wait()
            key = self._waiting.popleft()
            owner = self._owner(key)
            if self._shares[owner] < share:
                self._shares[owner] += 1
                return key
            self._held.setdefault(owner, deque()).append(key)

    def _give_back(self, owner: Hashable) -> None:
        self._shares[owner] -= 1
        if not self._shares[owner]:
            del self._shares[owner]
        held = self._held.get(owner)
        if held:
            # This key has waited longer than all that are in line.
            self._waiting.appendleft(held.popleft())
            self._filled.set()
        if not held:
            self._held.pop(owner, None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._moments:
            self._timer = asyncio.get_running_loop().call_at(self._moments[0][0], self._ring)

    def _ring(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._moments and self._moments[0][0] <= now:
            moment, _, key = heapq.heappop(self._moments)
            # A key that was planned anew or done meanwhile has another moment or none.
            if self._later.get(key) == moment:
                self.add(key)
        self._timer = None
        self._set_timer()
