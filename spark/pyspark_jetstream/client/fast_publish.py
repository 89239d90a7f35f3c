"""Publishes by fast ingest (nats-server 2.14, streams with `allow_batched`): one ack for some hundred messages.

The server stores a batch message by message, in its order, and ends it at the first gap; so an ack for one message is
an ack for all before it. When a batch ends in any other way, the window of `publish` finds out message by message what
is stored, and the ids keep a stored message from being stored again. The server forgets a batch that rests for 10 s,
and says so.

Source: NATS ADR 50, tried on nats-server 2.15.1.
"""

from __future__ import annotations

import json
import secrets
from collections import deque

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival
from pyspark_jetstream.client.connection import Connection
from pyspark_jetstream.client.patience import SILENCE_SECONDS
from pyspark_jetstream.client.publish import WINDOW_BYTES, WINDOW_MESSAGES, WRITE_BYTES, Outgoing, Publisher

# The server acks as often as it is asked to, or more often; it takes no larger number.
MOST_FLOW = 500
# A stream that fails so often is not worth another try in this task.
MOST_TROUBLES = 3
_START, _ADD, _END = 0, 1, 3


class FastPublisher:
    """Works as the `Publisher` that it uses, but does not tell duplicates apart.

    Attributes:
        stored: acknowledged messages, including those of the `Publisher`.
        troubles: batches that were handed to the `Publisher`.
    """

    def __init__(self, connection: Connection, window: Publisher, *, most: int = WINDOW_MESSAGES) -> None:
        self.troubles = 0
        self.most = 0
        self._acknowledged = 0
        self._connection = connection
        self._window = window
        self._most = most
        # With this flow acks come unasked before the window is full.
        self._flow = max(1, min(MOST_FLOW, most // 4))
        self._unacked: deque[Outgoing] = deque()
        self._unacked_bytes = 0
        self._first = 1  # the batch's number of the first unacknowledged message
        self._generation = -1
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._batch = 0
        self._prefix = ""  # the prefix of the open batch's replies; empty while there is none
        self._buffer: list[bytes] = []
        self._buffered = 0

    @property
    def stored(self) -> int:
        return self._acknowledged + self._window.stored

    @property
    def duplicates(self) -> int:
        return self._window.duplicates

    def send(self, message: Outgoing) -> None:
        """As `Publisher.send`."""
        size = len(message.block) + len(message.data)
        if self.troubles >= MOST_TROUBLES or size > self._connection.max_payload:
            self._window.send(message)
            return
        self._unacked.append(message)
        self._unacked_bytes += size
        try:
            self._add(message)
            if len(self._unacked) >= self._most or self._unacked_bytes >= WINDOW_BYTES:
                self._wait(self._most // 2, WINDOW_BYTES // 2)
        except Unavailable:
            self._give_up()

    def flush(self) -> None:
        try:
            self._write()
        except Unavailable:
            self._give_up()
        self._window.flush()

    def finish(self) -> None:
        """As `Publisher.finish`; the batch ends."""
        if self._unacked:
            try:
                self._wait(0, 0)
            except Unavailable:
                self._give_up()
        self._window.finish()

    def _add(self, message: Outgoing) -> None:
        op = _ADD
        if self._generation != self._connection.generation or not self._prefix:
            self._begin()
            op = _START
        number = self._first + len(self._unacked) - 1
        self._put(message.subject, message.data, message.block, number, op)

    def _begin(self) -> None:
        """Begin a batch; raises Unavailable when messages of an earlier connection's batch still wait for acks."""
        self._connection.link  # noqa: B018  # dials, if need be
        if len(self._unacked) > 1:
            raise Unavailable("the connection was made anew")
        if self._generation != self._connection.generation:
            self._connection.send(nats_wire.subscribe(f"{self._inbox}.>", self._connection.new_sid()))
            self._generation = self._connection.generation
        self._batch += 1
        self._prefix = f"{self._inbox}.{self._batch}{self._inbox[-12:]}"
        self._first = 1

    def _put(self, subject: str, data: bytes, block: bytes, number: int, op: int) -> None:
        reply = f"{self._prefix}.{self._flow}.fail.{number}.{op}.$FI"
        try:
            frame = nats_wire.publish(subject, data, reply, block, self._connection.max_payload)
        except Refused as error:
            # The `Publisher` meets the same refusal again, and reports it.
            raise Unavailable(str(error)) from error
        self._buffer.append(frame)
        self._buffered += len(frame)
        if self._buffered >= WRITE_BYTES or op == _START:
            self._write()

    def _write(self) -> None:
        if self._buffer:
            data = b"".join(self._buffer)
            self._buffer, self._buffered = [], 0
            if self._generation != self._connection.generation:
                raise Unavailable("the connection was made anew")
            self._connection.send(data)

    def _wait(self, most: int, most_bytes: int) -> None:
        self.most = max(self.most, len(self._unacked))
        # A few large messages fill the window before an ack is due; only the end of the batch brings an ack.
        is_end = not most or len(self._unacked) < 2 * self._flow
        if is_end:
            self._put(self._unacked[-1].subject, b"", b"", self._first + len(self._unacked), _END)
            most = most_bytes = 0
        self._write()
        while len(self._unacked) > most or self._unacked_bytes > most_bytes:
            arrivals = self._connection.receive(SILENCE_SECONDS)
            if self._generation != self._connection.generation:
                raise Unavailable("the connection was made anew")
            if not arrivals and not self._connection.is_amid(SILENCE_SECONDS):
                raise Unavailable("JetStream does not acknowledge")
            for arrival in arrivals:
                if arrival.subject.startswith(f"{self._prefix}."):
                    self._answered(arrival)
        if is_end:
            self._prefix = ""

    def _answered(self, answer: Arrival) -> None:
        """Take in an answer; raises Unavailable for any other than a plain ack."""
        if answer.status:
            raise Unavailable(f"the server answers {answer.status}")
        said = json.loads(answer.data)
        if said.get("type") == "ack":
            self._stored_up_to(int(said["seq"]))
        elif "batch" in said and "count" in said and "error" not in said:
            self._stored_up_to(int(said["count"]))
            if self._unacked:
                raise Unavailable("the batch has ended early")
        else:
            raise Unavailable(f"the server answers {answer.data[:300].decode('utf-8', 'replace')}")

    def _stored_up_to(self, number: int) -> None:
        while self._unacked and self._first <= number:
            message = self._unacked.popleft()
            self._unacked_bytes -= len(message.block) + len(message.data)
            self._acknowledged += 1
            self._first += 1

    def _give_up(self) -> None:
        """Let the `Publisher` find out, message by message, which ones are stored."""
        self.troubles += 1
        messages, self._unacked = self._unacked, deque()
        self._unacked_bytes = 0
        self._buffer, self._buffered = [], 0
        self._prefix = ""
        for message in messages:
            self._window.send(message)
        self._window.finish()
