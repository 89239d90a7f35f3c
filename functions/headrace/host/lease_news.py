"""What a lease says before its answer: what it has done so far, and that it ends since its process does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from headrace.core.delivery import lease
from headrace.core.delivery.lease import ENDING, ENDING_LINE, Lease, Outcome, Tally
from headrace.io.web import Early


@contextmanager
def told(asked: Lease, tally: Tally, early: Early, stop: asyncio.Event, draining: Callable[[], bool]) -> Iterator[None]:
    """For the time of the block, in the answer that has not ended yet.

    Args:
        stop: set when the lease is to pull no more; `draining`: whether since this process ends.
    """
    early.lines = asked.progress_seconds > 0
    tasks = [asyncio.create_task(_announce(early, stop, draining))]
    if asked.progress_seconds:
        tasks.append(asyncio.create_task(_count(early, tally, asked.progress_seconds)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def _announce(early: Early, stop: asyncio.Event, draining: Callable[[], bool]) -> None:
    """Say at once that a lease ends since its process does: its last subscriber may take a minute."""
    await stop.wait()
    if not draining():
        return
    if early.begun:
        await early.say(ENDING_LINE)
    else:
        await early.begin((ENDING[0].encode(), ENDING[1].encode()))


async def _count(early: Early, tally: Tally, seconds: float) -> None:
    """Say again and again what the lease has done, while that changes; one that does nothing says so once.

    That it pulls is news to whoever can't know how long its request was on the way.
    """
    said: Mapping[Outcome, int] | None = None
    while True:
        await asyncio.sleep(seconds)
        # What waits behind the latest message is told once: that nothing has come since is no news.
        if tally.counts != said or tally.latest:
            said = dict(tally.counts)
            await early.say(lease.so_far(tally))
