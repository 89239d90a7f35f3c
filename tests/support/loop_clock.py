"""How long something took by the event loop's own measure: for tests of deadlines on machines that are busy.

While the process has to wait for a processor, no timer can fire: time that passes then says nothing about the code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

Result = TypeVar("Result")

TICK = 0.01
# A tick that takes longer was kept from firing.
LONGEST_TICK = 2 * TICK
# How late a timer of ours may be, by this clock; it is never early, by any.
LATE = 0.25
EARLY = 0.001


class LoopClock:
    """Counts while the event loop runs; `seconds` since it began."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def run(self) -> None:
        then = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            self.seconds += min(now - then, LONGEST_TICK)
            then = now


@asynccontextmanager
async def loop_clock() -> AsyncIterator[LoopClock]:
    clock = LoopClock()
    running = asyncio.create_task(clock.run())
    try:
        yield clock
    finally:
        running.cancel()
        await asyncio.wait([running])


async def exactly(seconds: float, what: Awaitable[Result]) -> Result:
    """What came of it; the test fails unless it took so long."""
    # uvloop's clock stands still during a pass of the loop: a timer counts from the pass's beginning.
    await asyncio.sleep(0)
    began = time.monotonic()
    async with loop_clock() as clock:
        result = await what
        assert time.monotonic() - began >= seconds - EARLY
        assert clock.seconds < seconds + LATE
    return result
