"""Wake hints: tells whoever opens leases that a stream has something new, at most once per interval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.core import names


class WakeHints:
    """Coalesces hints per stream: the first goes out at once, later ones at the end of the interval."""

    def __init__(self, send: Callable[[str], Awaitable[None]], interval: float) -> None:
        self._send = send
        self._interval = interval
        self._quiet_until: dict[str, float] = {}
        self._planned: set[str] = set()
        self._sending: set[asyncio.Task[None]] = set()

    def __call__(self, stream: str) -> None:
        if stream in self._planned:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        until = self._quiet_until.get(stream, 0.0)
        if now >= until:
            self._emit(stream)
        else:
            self._planned.add(stream)
            loop.call_at(until, self._emit, stream)

    def _emit(self, stream: str) -> None:
        self._planned.discard(stream)
        now = asyncio.get_running_loop().time()
        if len(self._quiet_until) > 10_000:
            self._quiet_until = {name: until for name, until in self._quiet_until.items() if until > now}
        self._quiet_until[stream] = now + self._interval
        task = asyncio.ensure_future(self._send(names.wake_subject(stream)))
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        # A hint that could not be sent is no loss: the sweep finds the event.
        if not task.cancelled():
            task.exception()
