"""What a lease says while it is open: its counts so far, and that it ends because its process does.

Writes into the answer of the lease's request, which has begun and not ended. Called by `headrace.host.leasing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from headrace.core.delivery import lease
from headrace.core.delivery.lease import ENDING, ENDING_LINE, Lease, Outcome, Tally
from headrace.io.web import Early


@contextmanager
def telling(
    asked: Lease, tally: Tally, early: Early, stop: asyncio.Event, draining: Callable[[], bool]
) -> Iterator[None]:
    """Tell the news of a lease for the time of the block.

    Args:
        early: the answer of the lease's request.
        stop: set when the lease must pull no more.
        draining: does this process end? Asked when `stop` is set.
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
    """Say that the lease ends because its process does, as soon as that is known: its last POST may take a minute."""
    await stop.wait()
    if not draining():
        return
    if early.begun:
        await early.say(ENDING_LINE)
    else:
        await early.begin((ENDING[0].encode(), ENDING[1].encode()))


async def _count(early: Early, tally: Tally, seconds: float) -> None:
    """Say what the lease has done, every so many seconds in which that has changed, and once at the beginning.

    A lease that has done nothing yet says so once: its opener learns that it pulls.
    """
    said: Mapping[Outcome, int] | None = None
    while True:
        await asyncio.sleep(seconds)
        # `latest` tells how much waits behind the latest message; a lease to which nothing has come since has no news.
        if tally.counts != said or tally.latest:
            said = dict(tally.counts)
            await early.say(lease.so_far(tally))
