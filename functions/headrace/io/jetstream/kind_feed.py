"""What `receive` tells the operator of new kinds of events, over core NATS: at most one message a second.

A lost message does no harm: each kind is told again some minutes later, if an event of it has come by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from headrace.core import names
from headrace.core.errors import HeadraceError
from headrace.core.event import event_kinds
from headrace.core.event.event_kinds import EventKinds

TELL_SECONDS = 1.0
FORGET_SECONDS = 300.0


class KindFeed:
    """Sends the news of one process; it plans nothing while there is none."""

    def __init__(
        self,
        kinds: EventKinds,
        send: Callable[[str, bytes], Awaitable[None]],
        place: str,
        key: bytes,
        seconds: float = TELL_SECONDS,
    ) -> None:
        """Args:
        place, key: as for `event_kinds.write`.
        """
        self._kinds = kinds
        self._send = send
        self._place, self._key = place, key
        self._seconds = seconds
        self._forgetting: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        kinds.on_news = self._plan

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self._seconds, self._tell)
        if self._forgetting is None:
            self._forgetting = loop.call_later(FORGET_SECONDS, self._forget)

    def _tell(self) -> None:
        self._sending = asyncio.ensure_future(self._tell_all())

    async def _tell_all(self) -> None:
        with suppress(HeadraceError):
            message = event_kinds.write(self._kinds.take(), self._place, self._key)
            await self._send(names.kinds_subject(self._place), message)

    def _forget(self) -> None:
        self._forgetting = None
        self._kinds.forget()
