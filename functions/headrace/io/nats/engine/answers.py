"""Requests that wait for their answer: one inbox, a table entry each, one timer for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import CRLF, NO_HEADERS, AnswerRun, Arrival, Run
from headrace.io.nats.contract import Answer, Broken, Headers, OnAnswer

_NEVER = float("inf")
# A subject has at most some hundred bytes; one that is asked again after so many others is encoded again.
MOST_LINES = 1024
# Made for each answer that a coroutine awaits; the constructor that is written in Python takes twice as long.
_new = tuple.__new__


# One request: who is told, until when he waits (loop time), and what was asked.
Awaited: TypeAlias = "tuple[OnAnswer | asyncio.Future[Arrival], float, str]"


class Answers:
    """The inbox. A reply subject is its stem and a serial number, and the digits of that are what a request goes by.

    Attributes:
        stem: what all reply subjects begin with, the dot included.
        subject: to subscribe to.
        serial: digits of the next question's number.
        lines: how questions to a subject begin, as `nats_wire.question_line` writes it; few subjects are asked often.
    """

    def __init__(self, inbox: str) -> None:
        """Args:
        inbox: a subject of our own.
        """
        self.lines: dict[str, bytes] = {}
        self.move(inbox)
        self._number = 1
        self.serial = b"1"
        self._awaited: dict[bytes, Awaited] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER

    def move(self, inbox: str) -> None:
        """Be answered there from now on; what was asked before may still be answered at the old place."""
        self.stem = f"{inbox}."
        self.subject = f"{self.stem}*"
        self._raw_stem = self.stem.encode()
        self.lines.clear()

    def question(self, subject: str, headers: Headers | None, data: bytes, most: int) -> tuple[bytes, ...]:
        """The next question's frame, in pieces.

        Args:
            most: bytes of headers and data that the server takes.

        Raises:
            Refused: as `nats_wire.publish`.
        """
        if not isinstance(headers, bytes) or not headers or len(headers) + len(data) > most:
            return (nats_wire.publish(subject, data, self.stem + self.serial.decode(), headers, most),)
        line = self.lines.get(subject)
        if line is None:
            if len(self.lines) >= MOST_LINES:
                self.lines.clear()
            line = self.lines[subject] = nats_wire.question_line(subject, self.stem)
        return line % (self.serial, len(headers), len(headers) + len(data)), headers, data, CRLF

    def expect(self, told: OnAnswer | asyncio.Future[Arrival], subject: str, deadline: float) -> None:
        """The answer to a question that has just been sent as number `serial`; whoever gives up must `forget` it.

        Args:
            told: gets the answer, or Unavailable after the deadline, or Broken or Refused as told to this table.
            deadline: on the loop's clock.
        """
        self._awaited[self.serial] = told, deadline, subject
        # Made here, as a call of its own would be dear.
        self._number += 1
        self.serial = b"%d" % self._number
        if deadline < self._due:
            self._arm(asyncio.get_running_loop(), deadline)

    def forget(self, serial: bytes) -> None:
        self._awaited.pop(serial, None)

    def arrived(self, answer: Arrival) -> None:
        """What the inbox brings; late answers are for nobody."""
        serial = answer.subject.rpartition(".")[2].encode("utf-8", "surrogateescape")
        awaited = self._awaited.pop(serial, None)
        if awaited is not None:
            _tell(awaited[0], answer)

    def arrived_together(self, run: Run) -> None:
        """What it mostly brings: PubAcks of one burst."""
        if not isinstance(run, AnswerRun) or run.stem != self._raw_stem:
            for arrival in run.arrivals():
                self.arrived(arrival)
            return
        awaited, stem, sid = self._awaited, self.stem, run.sid
        for serial, data in zip(run.numbers, run.answers, strict=True):
            asked = awaited.pop(serial, None)
            if asked is None:
                continue
            told = asked[0]
            # Futures can't be called; to ask for their class takes twice as long.
            if callable(told):
                try:
                    told(data)
                except Exception as error:  # noqa: BLE001  # one faulty callback must not cost the others their answer
                    _complain(error)
            elif not told.done():
                told.set_result(_new(Arrival, (stem + serial.decode(), "", NO_HEADERS, data, "", "", sid)))

    def open(self) -> list[bytes]:
        """The serial numbers of all that waits now."""
        return list(self._awaited)

    async def linger(self, serials: list[bytes], timeout: float) -> None:
        """Wait until all of these are answered; after `timeout` seconds, or when cancelled, they never will be."""
        told = [self._also_told(serial) for serial in serials if serial in self._awaited]
        try:
            if told:
                await asyncio.wait(told, timeout=timeout)
        finally:
            self.broke(serials)

    def _also_told(self, serial: bytes) -> asyncio.Future[None]:
        """Done when whoever waits for this answer has been told, whatever it was."""
        first, deadline, subject = self._awaited[serial]
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(answer: Answer) -> None:
            if not told.done():
                told.set_result(None)
            _tell(first, answer)

        self._awaited[serial] = tell, deadline, subject
        return told

    def broke(self, serials: Iterable[bytes] | None = None) -> None:
        """The connection is gone, and no answer will come to these, or to any."""
        still = [serial for serial in serials if serial in self._awaited] if serials is not None else self.open()
        self._fail(still, lambda: Broken("the connection to NATS broke before the answer"))

    def refused(self, subject: str) -> None:
        """The server forbids us to publish there: no answer will come."""
        serials = [serial for serial, (_, _, asked) in self._awaited.items() if asked == subject]
        words = f"NATS forbids us to publish to {subject}: check the permissions"
        self._fail(serials, lambda: Refused(words, status=403))

    def close(self) -> None:
        """Nothing will be asked any more."""
        self.broke()
        if self._timer is not None:
            self._timer.cancel()

    def _fail(self, serials: list[bytes], why: Callable[[], HeadraceError]) -> None:
        for serial in serials:
            told, _, _ = self._awaited.pop(serial)
            # An exception each: it collects the traceback of every coroutine that it passes through.
            _tell(told, why())

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        self._timer = loop.call_at(deadline, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail what is overdue, and set the timer for what is due next: seldom, since most answers come long before."""
        now = loop.time()
        self._timer, self._due = None, _NEVER
        overdue = [serial for serial, (_, deadline, _) in self._awaited.items() if deadline <= now]
        self._fail(overdue, lambda: Unavailable("NATS did not answer in time"))
        if self._awaited:
            self._arm(loop, min(deadline for _, deadline, _ in self._awaited.values()))


def _tell(told: OnAnswer | asyncio.Future[Arrival], answer: Answer) -> None:
    if callable(told):
        told(answer)
    elif told.done():
        return
    elif isinstance(answer, HeadraceError):
        told.set_exception(answer)
    else:
        told.set_result(Arrival("", data=answer) if isinstance(answer, bytes) else answer)


def _complain(error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "a NATS answer found a fault", "exception": error})
