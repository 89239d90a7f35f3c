"""Requests that wait for their answer: one inbox, a table entry each, one timer for all."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.nats_wire import Arrival
from headrace.io.client import Broken, OnAnswer

_NEVER = float("inf")


# One request: who is told, until when he waits (loop time), and what was asked.
Awaited: TypeAlias = tuple[OnAnswer, float, str]


class Answers:
    """The inbox.

    Attributes:
        subject: to subscribe to.
    """

    def __init__(self) -> None:
        self._prefix = f"_INBOX.{secrets.token_hex(11)}."
        self.subject = f"{self._prefix}*"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serial = 0
        self._awaited: dict[str, Awaited] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER

    def expect(self, subject: str, timeout: float) -> tuple[str, asyncio.Future[Arrival]]:
        """A reply subject and the future of its answer; whoever gives up must `forget` it.

        The future raises Unavailable after `timeout` seconds, Broken and Refused as told to this table.
        """
        future: asyncio.Future[Arrival] = asyncio.get_running_loop().create_future()
        return self.tell(partial(_settle, future), subject, timeout), future

    def tell(self, on_answer: OnAnswer, subject: str, timeout: float) -> str:
        """A reply subject; `on_answer` gets its answer, or the error that a future of `expect` would raise."""
        loop = self._loop or asyncio.get_running_loop()
        self._loop = loop
        self._serial += 1
        reply = f"{self._prefix}{self._serial}"
        deadline = loop.time() + timeout
        self._awaited[reply] = on_answer, deadline, subject
        if deadline < self._due:
            self._arm(loop, deadline)
        return reply

    def forget(self, reply: str) -> None:
        self._awaited.pop(reply, None)

    def arrived(self, answer: Arrival) -> None:
        """What the inbox brings; late answers are for nobody."""
        awaited = self._awaited.pop(answer.subject, None)
        if awaited is not None:
            awaited[0](answer)

    def open(self) -> list[str]:
        """The reply subjects of all that waits now."""
        return list(self._awaited)

    async def linger(self, replies: list[str], timeout: float) -> None:
        """Wait until all of these are answered; after `timeout` seconds, or when cancelled, they never will be."""
        told = [self._also_told(reply) for reply in replies if reply in self._awaited]
        try:
            if told:
                await asyncio.wait(told, timeout=timeout)
        finally:
            self.broke(replies)

    def _also_told(self, reply: str) -> asyncio.Future[None]:
        """Done when whoever waits for this reply has been told, whatever it was."""
        on_answer, deadline, subject = self._awaited[reply]
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(answer: Arrival | HeadraceError) -> None:
            if not told.done():
                told.set_result(None)
            on_answer(answer)

        self._awaited[reply] = tell, deadline, subject
        return told

    def broke(self, replies: Iterable[str] | None = None) -> None:
        """The connection is gone, and no answer will come to these, or to any."""
        still = [reply for reply in replies if reply in self._awaited] if replies is not None else self.open()
        self._fail(still, lambda: Broken("the connection to NATS broke before the answer"))

    def refused(self, subject: str) -> None:
        """The server forbids us to publish there: no answer will come."""
        replies = [reply for reply, (_, _, asked) in self._awaited.items() if asked == subject]
        words = f"NATS forbids us to publish to {subject}: check the permissions"
        self._fail(replies, lambda: Refused(words, status=403))

    def close(self) -> None:
        """Nothing will be asked any more."""
        self.broke()
        if self._timer is not None:
            self._timer.cancel()

    def _fail(self, replies: list[str], why: Callable[[], HeadraceError]) -> None:
        for reply in replies:
            on_answer, _, _ = self._awaited.pop(reply)
            # An exception each: it collects the traceback of every coroutine that it passes through.
            on_answer(why())

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        self._timer = loop.call_at(deadline, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail what is overdue, and set the timer for what is due next: seldom, since most answers come long before."""
        now = loop.time()
        self._timer, self._due = None, _NEVER
        overdue = [reply for reply, (_, deadline, _) in self._awaited.items() if deadline <= now]
        self._fail(overdue, lambda: Unavailable("NATS did not answer in time"))
        if self._awaited:
            self._arm(loop, min(deadline for _, deadline, _ in self._awaited.values()))


def _settle(future: asyncio.Future[Arrival], answer: Arrival | HeadraceError) -> None:
    if future.done():
        return
    if isinstance(answer, HeadraceError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
