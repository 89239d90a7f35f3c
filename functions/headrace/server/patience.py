"""The waits of a connection, one at a time, with one timer for all of them.

An event loop's timer costs a microsecond to set and to cancel, and a busy connection begins and ends thousands of waits
in the time of one. So a wait only notes its end; the timer is set when there is none, or when it would be too late.

`headrace.server.protocol` calls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Patience:
    """One wait at a time; `expired` is called when it has lasted as long as it may.

    Attributes:
        since: when the present wait began, or the last one, or when it was said to be over.
    """

    __slots__ = ("_expired", "_loop", "_timer", "_timer_at", "_until", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._until = 0.0
        self.since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def waits(self) -> bool:
        return self._until > 0

    def wait(self, seconds: float) -> None:
        """A wait begins now, in place of the one before."""
        self.since = now = self._loop.time()
        self._until = until = now + seconds
        if self._timer is not None and self._timer_at <= until:
            return
        self._set(until)

    def stop(self) -> None:
        """The wait is over in time."""
        self._until = 0.0

    def over(self) -> None:
        """The client has sent all that we waited for."""
        self._until = 0.0
        self.since = self._loop.time()

    def close(self) -> None:
        self.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._until:
            return
        # A loop whose clock counts milliseconds calls a little early.
        if self._until - self._loop.time() > 0.001:
            self._set(self._until)
            return
        self.stop()
        self._expired()
