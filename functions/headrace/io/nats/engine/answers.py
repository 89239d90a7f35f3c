"""Requests that wait for their answer: one inbox, one timer, and a table entry for each request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.fast import new_tuple
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import CRLF, NO_HEADERS, AnswerRun, Arrival, Run
from headrace.io.nats.contract import Answer, Broken, Headers, OnAnswer

_NEVER = float("inf")
# So long after the first question in a row whose time was up the next one means that nobody answers.
SILENT_SECONDS = 2.0
# A server that is cut from its cluster does answer: that JetStream has no leader (10008), that a publish which is sent
# again is still under way (10158), or that nobody listens (503), as it does where a stream does not exist. The errors
# count as no answer, and "no responders" as nothing at all.
_UNABLE = re.compile(rb'"err_code":10(?:008|158),')
_LONGEST_ERROR = 400
# A line has some hundred bytes at most; beyond so many subjects all lines are encoded anew.
MOST_LINES = 1024


# One request: its callback or future, its deadline (loop time), and its subject.
Awaited: TypeAlias = "tuple[OnAnswer | asyncio.Future[Arrival], float, str]"


class Answers:
    """The inbox. A reply subject is its stem and a serial number; the digits of the number identify the request.

    Attributes:
        stem: the beginning of all reply subjects, the dot included.
        subject: to subscribe to.
        serial: digits of the next question's number.
        heard: has anything been answered since the last question that was not, and since the link is new?
        lines: the beginning of a question to a subject, by `nats_wire.question_line`; few subjects are asked often.
    """

    def __init__(self, inbox: str, on_silence: Callable[[], None]) -> None:
        """Args:
        on_silence: called when questions were asked for some seconds, and the server was able to answer none.
        """
        self.lines: dict[str, bytes] = {}
        self.move(inbox)
        self._number = 1
        self.serial = b"1"
        self._awaited: dict[bytes, Awaited] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER
        self._on_silence = on_silence
        self.heard = True
        self._silent_since = 0.0

    def move(self, inbox: str) -> None:
        """Use another inbox from now on; earlier requests may still be answered in the old one."""
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

    def expect(self, asker: OnAnswer | asyncio.Future[Arrival], subject: str, deadline: float) -> None:
        """Expect the answer to the question just sent as number `serial`; a caller that gives up must `forget` it.

        Args:
            asker: gets the answer, or Unavailable after the deadline, or the error of `broke` or `refused`.
            deadline: on the loop's clock.
        """
        self._awaited[self.serial] = asker, deadline, subject
        # Inline, since a call would be dear.
        self._number += 1
        self.serial = b"%d" % self._number
        if deadline < self._due:
            self._arm(asyncio.get_running_loop(), deadline)

    def forget(self, serial: bytes) -> None:
        self._awaited.pop(serial, None)

    def arrived(self, answer: Arrival) -> None:
        """Hand an answer to its request; a late answer has none and is dropped."""
        if answer.status != "503":
            self._weigh((answer.data,))
        serial = answer.subject.rpartition(".")[2].encode("utf-8", "surrogateescape")
        awaited = self._awaited.pop(serial, None)
        if awaited is not None:
            _tell(awaited[0], answer)

    def arrived_together(self, run: Run) -> None:
        """Hand a run of answers to their requests: the PubAcks of one burst, the common case."""
        if not isinstance(run, AnswerRun) or run.stem != self._raw_stem:
            for arrival in run.arrivals():
                self.arrived(arrival)
            return
        self._weigh(run.answers)
        awaited, stem, sid = self._awaited, self.stem, run.sid
        for serial, data in zip(run.numbers, run.answers, strict=True):
            asked = awaited.pop(serial, None)
            if asked is None:
                continue
            asker = asked[0]
            # Futures can't be called; a check of the class takes twice as long.
            if callable(asker):
                try:
                    asker(data)
                except Exception as error:  # noqa: BLE001  # a faulty callback must not cost the others their answers
                    _complain(error)
            elif not asker.done():
                asker.set_result(new_tuple(Arrival, (stem + serial.decode(), "", NO_HEADERS, data, "", "", sid)))

    def _weigh(self, answers: Iterable[bytes]) -> None:
        """Was the server able to answer any of these?"""
        for answer in answers:
            if len(answer) > _LONGEST_ERROR or b'"error"' not in answer or not _UNABLE.search(answer):
                self.heard = True
                return
        self.missed(asyncio.get_running_loop().time())

    def missed(self, now: float) -> None:
        """The time of a question is up, or the server was unable to answer it; `heard` is set with each answer."""
        if self.heard:
            self.heard, self._silent_since = False, now
        elif now >= self._silent_since + SILENT_SECONDS:
            self._on_silence()

    def open(self) -> list[bytes]:
        """The serial numbers of all requests that wait now."""
        return list(self._awaited)

    async def linger(self, serials: list[bytes], timeout: float) -> None:
        """Wait until all of these are answered; after `timeout` seconds, or when cancelled, fail the rest."""
        ended = [self._also_ends(serial) for serial in serials if serial in self._awaited]
        try:
            if ended:
                await asyncio.wait(ended, timeout=timeout)
        finally:
            self.broke(serials)

    def _also_ends(self, serial: bytes) -> asyncio.Future[None]:
        """A future that is done when this request has its answer or its error."""
        first, deadline, subject = self._awaited[serial]
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell(answer: Answer) -> None:
            if not ended.done():
                ended.set_result(None)
            _tell(first, answer)

        self._awaited[serial] = tell, deadline, subject
        return ended

    def broke(self, serials: Iterable[bytes] | None = None) -> None:
        """The connection is gone: fail these requests, or all."""
        still = [serial for serial in serials if serial in self._awaited] if serials is not None else self.open()
        self._fail(still, lambda: Broken("the connection to NATS broke before the answer"))

    def refused(self, subject: str) -> None:
        """The server forbids us to publish to this subject: fail its requests."""
        serials = [serial for serial, (_, _, asked) in self._awaited.items() if asked == subject]
        words = f"NATS forbids us to publish to {subject}: check the permissions"
        self._fail(serials, lambda: Refused(words, status=403))

    def close(self) -> None:
        """Fail all requests, and stop the timer."""
        self.broke()
        if self._timer is not None:
            self._timer.cancel()

    def _fail(self, serials: list[bytes], why: Callable[[], HeadraceError]) -> None:
        for serial in serials:
            asker, _, _ = self._awaited.pop(serial)
            # A new exception for each: it collects the traceback of every coroutine on its way.
            _tell(asker, why())

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        self._timer = loop.call_at(deadline, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail overdue requests and set the timer for the next: seldom, since most answers come long before."""
        now = loop.time()
        self._timer, self._due = None, _NEVER
        overdue = [serial for serial, (_, deadline, _) in self._awaited.items() if deadline <= now]
        self._fail(overdue, lambda: Unavailable("NATS did not answer in time"))
        if overdue:
            self.missed(now)
        if self._awaited:
            self._arm(loop, min(deadline for _, deadline, _ in self._awaited.values()))


def _tell(asker: OnAnswer | asyncio.Future[Arrival], answer: Answer) -> None:
    if callable(asker):
        asker(answer)
    elif asker.done():
        return
    elif isinstance(answer, HeadraceError):
        asker.set_exception(answer)
    else:
        asker.set_result(Arrival("", data=answer) if isinstance(answer, bytes) else answer)


def _complain(error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "a NATS answer found a fault", "exception": error})
