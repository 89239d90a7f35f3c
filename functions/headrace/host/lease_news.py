"""The news of an open lease: its counts so far, and that it ends because its process does.

It writes them into the answer of the lease's request, which has begun and not ended. `headrace.host.leasing` calls it.
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
        draining: does this process end? Called when `stop` is set.
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
    """Say at once that the lease ends because its process does: its last POST may take a minute."""
    await stop.wait()
    if not draining():
        return
    if early.begun:
        await early.say(ENDING_LINE)
    else:
        await early.begin((ENDING[0].encode(), ENDING[1].encode()))


async def _count(early: Early, tally: Tally, seconds: float) -> None:
    """Say the lease's counts every so many seconds, if they have changed.

    The first line comes without a change: the opener learns that the lease pulls.
    """
    said: Mapping[Outcome, int] | None = None
    while True:
        await asyncio.sleep(seconds)
        # `latest` tells how much waits behind the latest message; a lease without a new message has no news.
        if tally.counts != said or tally.latest:
            said = dict(tally.counts)
            await early.say(lease.so_far(tally))
