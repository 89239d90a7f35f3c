"""The pin of a by-key consumer: the one client that is served, and how long without a sign of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.simulation.model.unsettled import SECOND

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Pin:
    """The pin of one consumer.

    Attributes:
        id: of the client; empty without one.
        since: nanoseconds since the epoch.
    """

    def __init__(self, now: Callable[[], int], on_out: Callable[[], None], random: Random) -> None:
        """Args:
        on_out: it has run out.
        """
        self.id = ""
        self.since = 0
        self._now = now
        self._on_out = on_out
        self._random = random
        self._timer: asyncio.TimerHandle | None = None

    @property
    def until(self) -> float | None:
        """When it runs out, on the loop's clock; None without one."""
        return self._timer.when() if self._timer is not None else None

    def assign(self, timeout: int) -> str:
        """Another client is the one from now on; its id."""
        self.id = "".join(self._random.choices(_LETTERS, k=22))
        self.since = self._now()
        self.hold(timeout)
        return self.id

    def hold(self, timeout: int) -> None:
        """A sign of the client: so many nanoseconds more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(timeout / SECOND, self._out)

    def let_go(self) -> None:
        """It is nobody's any more."""
        self.id = ""
        self.since = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _out(self) -> None:
        if self.id:
            self.let_go()
            self._on_out()
