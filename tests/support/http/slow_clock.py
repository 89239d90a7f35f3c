"""An event loop whose timers go by a clock that the test moves; tasks run as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any


@dataclass
class _Timer:
    when: float
    due: Callable[[], object] | None

    def cancel(self) -> None:
        self.due = None


@dataclass
class SlowClock:
    """In the place of a loop.

    Attributes:
        timers: all that were ever set.
    """

    now: float = 1000.0
    timers: list[_Timer] = field(default_factory=list)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object]) -> _Timer:
        self.timers.append(_Timer(when, callback))
        return self.timers[-1]

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        asyncio.get_running_loop().call_soon(callback, *arguments)

    def advance(self, seconds: float) -> None:
        """Let so much time go by, timer by timer."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.due is not None and timer.when <= end]:
            first = min(due, key=lambda timer: timer.when)
            self.now, callback = max(self.now, first.when), first.due
            first.cancel()
            assert callback is not None
            callback()
        self.now = end
