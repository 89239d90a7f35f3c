"""One POST on the connections to one server, awaited or called back; both ways have the same deadline.

A POST goes out once: whether one without an answer was taken, only its receiver knows (RFC 9110, section 9.2.2), so
another try is for whoever counts them (ADR 057). The module knows connections and their failures; it knows no
addresses or events. Only `headrace.io.http.client` uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from headrace.core.errors import InvalidEvent, InvalidSpec
from headrace.core.http import HttpAnswer
from headrace.io.http.connection import ConnectionBroken, HttpConnection, Outcome
from headrace.io.http.pool import Origin
from headrace.io.http.request import ReadyHead
from headrace.io.process import clock

LONGEST_ERROR = 300

OnTimed: TypeAlias = Callable[[HttpAnswer, float], None]
"""It gets an answer, and the seconds that it took."""


class Terms(NamedTuple):
    """The common terms of all POSTs to one destination.

    Attributes:
        seconds: for everything: name look-up, connection, sending, the whole answer.
        limit: bytes of the answer's body to read.
        reply: is an event in the answer wanted?
    """

    origin: Origin
    seconds: float
    limit: int
    reply: bool


async def post(
    terms: Terms, head: bytes, body: bytes, deadline: float, connection: HttpConnection | None
) -> HttpAnswer:
    """Send, and await the answer.

    Args:
        deadline: on the monotonic clock.
        connection: an idle one; None: a new one is opened.
    """
    try:
        if connection is None:
            connection = await terms.origin.connect(deadline)
        answer = connection.exchange(head, body, terms.limit, deadline, reply=terms.reply)
        try:
            return await answer
        except (asyncio.CancelledError, GeneratorExit):
            connection.abandon(answer)
            raise
        finally:
            # A failed future holds its traceback, and so this frame with the event in it: only the rarest pass of the
            # garbage collector would find the cycle.
            del answer
    except (TimeoutError, ConnectionBroken, InvalidSpec, InvalidEvent) as error:
        return failed(error, terms.seconds)


def failed(error: Exception, seconds: float) -> HttpAnswer:
    """The value in place of an answer that did not come."""
    if isinstance(error, TimeoutError):
        return HttpAnswer(None, error=f"no answer within {seconds:g} s")
    stale = isinstance(error, ConnectionBroken) and error.stale
    return HttpAnswer(None, error=str(error)[:LONGEST_ERROR], stale=stale)


class Sender:
    """POSTs to one destination, without a coroutine for each as long as a connection is free."""

    def __init__(self, terms: Terms, head: ReadyHead, timed: OnTimed) -> None:
        self._terms = terms
        self._head = head
        self._timed = timed

    def send(self, lines: bytes, body: bytes, on_answer: Callable[[HttpAnswer], None]) -> OpenPost | None:
        """Send now, on a connection that is open and idle; without one send nothing and return None.

        Args:
            lines: header lines that are known to be good, each with its line end.
            on_answer: called once, from the event loop, with the outcome; never before this method has returned.
        """
        now = clock.monotonic()
        connection = self._terms.origin.take(now)
        if connection is None:
            return None
        posting = OpenPost(self._terms, self._head.render(lines, len(body)), body, now, on_answer, self._timed)
        posting.begin(connection)
        return posting


class OpenPost:
    """A POST that is under way."""

    __slots__ = ("_body", "_connection", "_deadline", "_head", "_hear", "_on_answer", "_terms", "_timed")

    def __init__(
        self,
        terms: Terms,
        head: bytes,
        body: bytes,
        now: float,
        on_answer: Callable[[HttpAnswer], None],
        timed: OnTimed,
    ) -> None:
        self._terms = terms
        self._head = head
        self._body = body
        self._deadline = now + terms.seconds
        self._on_answer = on_answer
        self._timed = timed

    def begin(self, connection: HttpConnection) -> None:
        """Send it on an idle connection."""
        self._connection: HttpConnection | None = connection
        self._hear = self._heard
        terms = self._terms
        connection.begin(self._head, self._body, terms.limit, self._deadline, self._hear, reply=terms.reply)

    def cancel(self) -> None:
        """Give the POST up; `on_answer` is not called."""
        if self._connection is not None:
            self._connection.abandon(self._hear)

    def _heard(self, outcome: Outcome) -> None:
        self._connection = None
        # The bound method refers to us, and we to it: the garbage collector may leave such a cycle, with its event, for
        # long.
        del self._hear
        if type(outcome) is HttpAnswer:
            self._tell(outcome)
        elif isinstance(outcome, Exception):
            self._tell(failed(outcome, self._terms.seconds))

    def _tell(self, answer: HttpAnswer) -> None:
        """Hand the answer over. `on_answer` is dropped first, since its owner holds us, too."""
        self._timed(answer, clock.monotonic() - self._deadline + self._terms.seconds)
        on_answer = self._on_answer
        del self._on_answer
        on_answer(answer)
