"""Hints for the opener of leases: a stream has something new, or no room; at most one per interval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from headrace.core import names
from headrace.core.errors import HeadraceError
from headrace.io.jetstream.data_path import JetStream

FULL_SECONDS = 30.0
ASK_SECONDS = 2.0
MOST_REMEMBERED = 10_000


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
        # A lost hint does no harm: the sweep finds the event.
        if not task.cancelled():
            task.exception()


class FullHints:
    """Hints that a channel's stream takes nothing, so that its conditions are checked: no other part would notice."""

    def __init__(self, jetstream: JetStream, interval: float = FULL_SECONDS) -> None:
        self._jetstream = jetstream
        self._interval = interval
        self._quiet_until: dict[str, float] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def tell(self, subject: str) -> None:
        """Hint that an event on this subject was refused for want of room."""
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until.get(subject, 0.0):
            return
        if len(self._quiet_until) >= MOST_REMEMBERED:
            self._quiet_until = {name: until for name, until in self._quiet_until.items() if until > now}
        self._quiet_until[subject] = now + self._interval
        task = asyncio.ensure_future(self._send(subject))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, subject: str) -> None:
        # A lost hint is sent again with a later refusal.
        with suppress(HeadraceError):
            stream = await self._jetstream.stream_of(subject, ASK_SECONDS)
            if stream:
                await self._jetstream.hint(names.wake_subject(stream), names.FULL_HINT)
