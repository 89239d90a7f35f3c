"""Publishes with a window of acks: many are on their way at a time, and every one is acknowledged in the end.

A message is known to be stored, or known to be refused. A message that is neither is published again with the same
`Nats-Msg-Id`: give one, or the message may be stored twice. The window is bounded in messages and bytes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival
from headrace.core.plural import counted
from pyspark_jetstream.client.api import BlockingApi
from pyspark_jetstream.client.connection import Connection
from pyspark_jetstream.client.patience import SILENCE_SECONDS

WINDOW_MESSAGES = 4096
WINDOW_BYTES = 16 * 1024 * 1024
# One write for so many bytes: with a system call for each message, the calls would be most of the cost.
WRITE_BYTES = 64 * 1024
_PAUSE_SECONDS = 0.1
# How many subjects are checked at a time for a stream that captures them.
MOST_ASKED = 16

# "message size exceeds maximum allowed": the only refusal that concerns the message and not the stream.
TOO_LARGE = 10054
# No leader just now, or too many messages at once: this try has stored nothing, and the next one may succeed.
_PASSING_CODES = frozenset((429, 503))


class Outgoing(NamedTuple):
    """A message to be published.

    Attributes:
        block: a header block, as `nats_wire.header_block` makes it; empty for none.
        row: the number by which the caller knows it.
    """

    subject: str
    block: bytes
    data: bytes
    row: int = 0


def raise_refusal(_message: Outgoing, refusal: Refused) -> None:
    """The default for a message that the server does not take: the refusal is raised."""
    raise refusal


class Publisher:
    """One window on one connection, on which other requests find their answers, too.

    Attributes:
        stored, duplicates: acks so far.
        most: how many messages were unacknowledged at once.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        window: int = WINDOW_MESSAGES,
        on_refusal: Callable[[Outgoing, Refused], None] = raise_refusal,
    ) -> None:
        """Args:
        on_refusal: called with a message that can't be stored: it is too large (413), or no stream captures its subject
            (404). A fault of the stream is always raised.
        """
        self.stored = 0
        self.duplicates = 0
        self.most = 0
        self._connection = connection
        self._window = window
        self._on_refusal = on_refusal
        self._generation = -1
        self._again = False
        self._prefix = f"_INBOX.{secrets.token_hex(11)}."
        self._serial = 0
        self._unacked: dict[str, tuple[bytes, Outgoing]] = {}
        self._unacked_bytes = 0
        self._buffer: list[bytes] = []
        self._buffered = 0

    def send(self, message: Outgoing) -> None:
        """Hand one message over; returns before it is stored, and waits while the window is full.

        Raises:
            Refused: the server will not store this message or an earlier one; the error names the subject.
            Unavailable: no progress for as long as the access's timeout.
        """
        subject, block, data, _ = message
        self._serial += 1
        reply = f"{self._prefix}{self._serial}"
        try:
            frame = nats_wire.publish(subject, data, reply, block, self._connection.max_payload)
        except Refused as refusal:
            self._on_refusal(message, refusal)
            return
        unacked, size = self._unacked, len(frame)
        unacked[reply] = (frame, message)
        self._unacked_bytes += size
        self._buffer.append(frame)
        self._buffered += size
        if self._buffered >= WRITE_BYTES:
            self.flush()
        if len(unacked) >= self._window or self._unacked_bytes >= WINDOW_BYTES:
            # Wait until half of the window is free, so that writes stay large.
            self._wait(self._window // 2, WINDOW_BYTES // 2)

    def flush(self) -> None:
        """Write the buffer; the next call that waits repairs a broken link."""
        try:
            self._write()
        except Unavailable:
            self._again = True

    def finish(self) -> None:
        """Wait until all is stored. Raises as `send`."""
        self._wait(0, 0)

    def _wait(self, most: int, most_bytes: int) -> None:
        patience = self._connection.access.timeout
        deadline = time.monotonic() + patience
        left = len(self._unacked)
        self.most = max(self.most, left)
        while len(self._unacked) > most or self._unacked_bytes > most_bytes:
            try:
                self._write()
                self._receive()
            except Unavailable as error:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{counted(len(self._unacked), 'message')} not acknowledged; no progress for {patience:.0f} s: "
                        f"{error}"
                    ) from error
                time.sleep(_PAUSE_SECONDS)
            if len(self._unacked) < left:
                left, deadline = len(self._unacked), time.monotonic() + patience

    def _write(self) -> None:
        self._connection.link  # noqa: B018  # dials, if need be: the generation tells whether it had to
        if self._generation != self._connection.generation:
            self._connection.send(nats_wire.subscribe(f"{self._prefix}*", self._connection.new_sid()))
            self._generation = self._connection.generation
            self._again = True
        if self._again:
            # All are sent again, in their order: by the ids the server knows which ones it has.
            self._buffer, self._again = [frame for frame, _ in self._unacked.values()], False
        if self._buffer:
            data = b"".join(self._buffer)
            self._buffer, self._buffered = [], 0
            self._connection.send(data)

    def _receive(self) -> None:
        arrivals = self._connection.receive(SILENCE_SECONDS)
        if not arrivals and not self._connection.is_amid(SILENCE_SECONDS):
            self._connection.verify(SILENCE_SECONDS)
            # A subscriber to `>` takes a message that no stream captures, and then nothing reports it.
            for subject in list(dict.fromkeys(message.subject for _, message in self._unacked.values()))[:MOST_ASKED]:
                self._refuse_if_missing(subject)
            if not self._unacked:
                return
            # The server is there, but the acks are not: send again, as a new leader may know nothing of the messages.
            self._again = True
            raise Unavailable("JetStream does not acknowledge")
        unknown: Unavailable | None = None
        for arrival in arrivals:
            try:
                self._answered(arrival)
            except Unavailable as error:
                unknown = error
        if unknown is not None:
            self._again = True
            raise unknown

    def _answered(self, answer: Arrival) -> None:
        unacked = self._unacked.get(answer.subject)
        if unacked is None:
            return
        data, message = answer.data, unacked[1]
        if answer.status == "503":
            self._nobody(answer.subject, message)
        elif b'"seq"' in data and b'"error"' not in data:
            self._take(answer.subject)
            is_duplicate = b'"duplicate"' in data and bool(json.loads(data).get("duplicate"))
            self.duplicates += is_duplicate
            self.stored += not is_duplicate
        else:
            self._failed(answer.subject, message, data)

    def _refuse_if_missing(self, subject: str) -> None:
        if BlockingApi(self._connection).streams_of(subject):
            return
        for reply, (_, message) in list(self._unacked.items()):
            if message.subject == subject:
                self._take(reply)
                self._on_refusal(message, Refused(f"no stream captures the subject {subject!r}", status=404))

    def _nobody(self, reply: str, message: Outgoing) -> None:
        """No responders: does no stream capture the subject, or is JetStream away?"""
        subject = message.subject
        if BlockingApi(self._connection).streams_of(subject):
            raise Unavailable(f"JetStream is away from {subject}")
        self._take(reply)
        self._on_refusal(message, Refused(f"no stream captures the subject {subject!r}", status=404))

    def _failed(self, reply: str, message: Outgoing, data: bytes) -> None:
        error = refusal_of(data)
        words = f"a message to {message.subject} was not stored: {data[:300].decode('utf-8', 'replace')}"
        if error.code in _PASSING_CODES:
            raise Unavailable(words)
        if error.err_code != TOO_LARGE:
            raise Refused(words, status=507)
        self._take(reply)
        self._on_refusal(message, Refused(words, status=413))

    def _take(self, reply: str) -> None:
        frame, _ = self._unacked.pop(reply)
        self._unacked_bytes -= len(frame)


class Refusal(NamedTuple):
    """Code and `err_code` of an answer that is no ack; zeros when it has none."""

    code: int
    err_code: int


def refusal_of(data: bytes) -> Refusal:
    try:
        error = json.loads(data).get("error") or {}
        return Refusal(int(error.get("code", 0)), int(error.get("err_code", 0)))
    except (ValueError, AttributeError):
        return Refusal(0, 0)
