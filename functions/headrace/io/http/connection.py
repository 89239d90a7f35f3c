"""One connection to a server: one exchange of request and answer at a time, with an exact deadline.

It knows the transport; it knows no addresses, pools or retries. It tells its keeper when it is free again and when it
is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

from headrace.core.http import HttpAnswer
from headrace.io.http.answer import AnswerReader, Malformed
from headrace.io.process import clock

# Bytes that the transport gets at once: as many as it buffers before it says stop.
PIECE = 64 * 1024
# The clocks of the event loops count in milliseconds.
TICK = 0.001


class ConnectionBroken(Exception):
    """The exchange failed; `stale`: on a connection that had been kept, and before the first byte of the answer."""

    def __init__(self, reason: str, *, stale: bool = False) -> None:
        super().__init__(reason)
        self.stale = stale


Outcome: TypeAlias = HttpAnswer | Exception
"""The end of an exchange; without an answer it is a TimeoutError, or ConnectionBroken."""


class Keeper(Protocol):
    """The owner of a connection; it had the connection opened."""

    def free(self, connection: HttpConnection, keep_alive: float) -> None:
        """The exchange is over, and the connection is good for another one within `keep_alive` seconds."""

    def gone(self, connection: HttpConnection) -> None:
        """The connection is closed, or about to be, and must not be used any more; called once."""

    def closed(self, connection: HttpConnection) -> None:
        """The transport has released the connection; called once, always after `gone`."""


class HttpConnection(asyncio.Protocol):
    """An open connection; the event loop calls the methods of `asyncio.Protocol`.

    Attributes:
        usable: False once it is closed or closing.
        expires: on the monotonic clock, while it is idle; its keeper sets it.
    """

    def __init__(self, keeper: Keeper) -> None:
        self.usable = True
        self.expires = 0.0
        self._keeper = keeper
        self._kept = False
        self._loop = asyncio.get_running_loop()
        self._reader = AnswerReader()
        # The callable that gets the outcome; of an awaited exchange it is `_settle`, and `_waiting` is the future.
        self._on_outcome: Callable[[Outcome], None] | None = None
        self._waiting: asyncio.Future[HttpAnswer] | None = None
        self._unsent: memoryview | None = None
        self._bulky = False
        self._paused = False
        self._deadline = 0.0
        self._rang_for = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    def exchange(
        self, head: bytes, body: bytes, limit: int, deadline: float, *, reply: bool = True
    ) -> asyncio.Future[HttpAnswer]:
        """Send a request; the future holds its answer.

        Cancelling the future is not enough: call `abandon`, too.

        Args:
            limit: bytes of the answer's body to read.
            deadline: on the monotonic clock, for sending and for the whole answer.
            reply: is an event in the answer wanted? Of all other bodies only the beginning is kept.

        The future raises:
            TimeoutError: the deadline has passed.
            ConnectionBroken: the connection ended, or its bytes were no answer.
        """
        self._waiting = waiting = self._loop.create_future()
        if self.usable:
            self.begin(head, body, limit, deadline, self._settle, reply=reply)
        else:
            self._settle(ConnectionBroken("the connection was closed before the request was sent"))
        return waiting

    def begin(
        self,
        head: bytes,
        body: bytes,
        limit: int,
        deadline: float,
        on_outcome: Callable[[Outcome], None],
        *,
        reply: bool = True,
    ) -> None:
        """`exchange` on a usable connection, with a callable in place of the future; the callable must not raise."""
        self._on_outcome = on_outcome
        self._reader.expect(limit, reply=reply)
        self._deadline = deadline
        # One timer serves many exchanges: it moves when it fires, not with each exchange.
        if self._timer is None or self._timer_due > deadline:
            self._arm()
        if len(body) <= PIECE:
            self._transport.write(head + body)
        else:
            self._bulky = True
            self._unsent = memoryview(body)[PIECE:]
            self._transport.write(head + body[:PIECE])
            self._send_more()

    def abandon(self, whose: asyncio.Future[HttpAnswer] | Callable[[Outcome], None]) -> None:
        """Give up an exchange: its answer is not wanted any more. Close, unless that exchange is over."""
        if whose in (self._waiting, self._on_outcome):
            self._waiting = self._on_outcome = None
            self.abort()

    def abort(self) -> None:
        """Close at once; an open exchange breaks."""
        if self.usable:
            self._leave()
            self._transport.abort()
        if self._on_outcome is not None:
            self._fail(ConnectionBroken("the connection was closed on our side"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports derive from no asyncio class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._on_outcome is None or (self._waiting is not None and self._waiting.done()):
            # No request asked for these bytes, or its caller is gone: the next request could take them for its answer.
            self.abort()
            return
        try:
            answer = self._reader.feed(data)
        except Malformed as error:
            self._fail(ConnectionBroken(str(error)))
        else:
            if answer is not None:
                self._succeed(answer)

    def eof_received(self) -> None:
        if self._on_outcome is not None:
            answer = self._reader.finish()
            if answer is None:
                self._fail(self._cut("the server closed the connection"))
            else:
                self._succeed(answer)
        # The transport itself would wait until a server that is gone reads the unsent bytes.
        self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        try:
            self._leave()
            if self._on_outcome is not None:
                self._fail(self._cut(f"the connection broke ({error or 'closed'})"))
        finally:
            # `Pool.close` waits for this, even if a callable raised.
            self._keeper.closed(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._send_more()

    def _send_more(self) -> None:
        while self._unsent is not None and not self._paused and self.usable:
            piece, rest = self._unsent[:PIECE], self._unsent[PIECE:]
            self._unsent = rest if len(rest) else None
            self._transport.write(piece)

    def _succeed(self, answer: HttpAnswer) -> None:
        on_outcome, self._on_outcome = self._on_outcome, None
        keep_alive = self._reader.keep_alive
        if answer.body:
            # Hundreds of idle connections must not keep their last answers in memory.
            self._reader.forget()
        if keep_alive > 0 and self.usable and not (self._bulky and self._sending()):
            self._kept = True
            self._keeper.free(self, keep_alive)
        else:
            self.abort()
        if on_outcome is not None:
            on_outcome(answer)

    def _fail(self, error: Exception) -> None:
        on_outcome, self._on_outcome = self._on_outcome, None
        self.abort()
        if on_outcome is not None:
            on_outcome(error)

    def _settle(self, outcome: Outcome) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, HttpAnswer):
            waiting.set_result(outcome)
        else:
            waiting.set_exception(outcome)

    def _cut(self, reason: str) -> ConnectionBroken:
        if not self._reader.begun:
            return ConnectionBroken(f"{reason} without an answer", stale=self._kept)
        return ConnectionBroken(f"{reason} in the middle of its answer")

    def _sending(self) -> bool:
        """Has the answer come before the whole request was sent?"""
        self._bulky = False
        return self._unsent is not None or self._transport.get_write_buffer_size() > 0

    def _leave(self) -> None:
        if self.usable:
            self.usable = False
            self._unsent = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._keeper.gone(self)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = self._deadline
        self._timer = self._loop.call_later(max(0.0, self._deadline - clock.monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._on_outcome is None:
            return
        if clock.monotonic() < self._deadline - TICK:
            self._arm()
        elif self._rang_for != self._deadline:
            # If the process stood still, an answer that came in time lies unread in the socket: read that first.
            self._rang_for = self._deadline
            self._timer = self._loop.call_later(TICK, self._ring)
        else:
            self._fail(TimeoutError())
