"""Waiting for things that can only be seen by looking again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def beside(coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
    """Run it on a thread and a loop of its own, beside other tests; for what takes long and disturbs nobody."""
    executor = ThreadPoolExecutor(1)
    future = executor.submit(asyncio.run, coroutine)
    executor.shutdown(wait=False)
    return future


async def until(what: str, holds: Callable[[], bool | Awaitable[bool]], seconds: float = 60.0) -> None:
    """Return as soon as it holds; fail the test, in these words, when it still does not after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline, f"after {seconds} s it is still not so that {what}"
        await asyncio.sleep(0.01)
