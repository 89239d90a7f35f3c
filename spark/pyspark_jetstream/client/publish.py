"""Publishes with a window of acks: many are on their way at a time, and every one is acknowledged in the end.

What has no answer when a connection breaks is published again, with the same `Nats-Msg-Id`: give one, or it may be
stored twice. Bounded in messages and bytes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.core import nats_wire
from headrace.core.errors import Refused, Unavailable
from headrace.core.nats_wire import Arrival
from pyspark_jetstream.client.connection import Connection

WINDOW_MESSAGES = 4096
WINDOW_BYTES = 16 * 1024 * 1024
# One write for so many bytes: a system call per message would be most of its cost.
WRITE_BYTES = 64 * 1024
SILENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Ack:
    """The server has stored a message, or had it already."""

    stream: str
    sequence: int
    duplicate: bool


class Publisher:
    """One window on one connection; nothing else may be asked on it meanwhile.

    Attributes:
        stored, duplicates: acks so far.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        window: int = WINDOW_MESSAGES,
        on_ack: Callable[[Ack], None] | None = None,
    ) -> None:
        """Args:
        on_ack: told of each ack; costs the parsing of its JSON.
        """
        self.stored = 0
        self.duplicates = 0
        self._connection = connection
        self._window = window
        self._on_ack = on_ack
        self._generation = -1
        self._again = False
        self._prefix = f"_INBOX.{secrets.token_hex(11)}."
        self._serial = 0
        self._unacked: dict[str, bytes] = {}
        self._unacked_bytes = 0
        self._buffer: list[bytes] = []
        self._buffered = 0

    def publish(self, subject: str, data: bytes, block: bytes = b"") -> None:
        """Hand one message over; returns before it is stored, and waits while the window is full.

        Args:
            block: a header block, as `nats_wire.header_block` makes it.

        Raises:
            Refused: the server will not store this one or an earlier one; the message says which subject.
            Unavailable: no progress for as long as the access's timeout.
        """
        self._serial += 1
        reply = f"{self._prefix}{self._serial}"
        frame = nats_wire.publish(subject, data, reply, block, self._connection.link.info.max_payload)
        self._unacked[reply] = frame
        self._unacked_bytes += len(frame)
        self._buffer.append(frame)
        self._buffered += len(frame)
        if self._buffered >= WRITE_BYTES:
            self._write()
        if len(self._unacked) >= self._window or self._unacked_bytes >= WINDOW_BYTES:
            # Half of it, so that writes stay large.
            self._wait(self._window // 2, WINDOW_BYTES // 2)

    def finish(self) -> None:
        """Wait until all is stored. Raises as `publish`."""
        self._wait(0, 0)

    def _wait(self, most: int, most_bytes: int) -> None:
        patience = self._connection.access.timeout
        deadline = time.monotonic() + patience
        left = len(self._unacked)
        while len(self._unacked) > most or self._unacked_bytes > most_bytes:
            try:
                self._write()
                self._receive()
            except Unavailable as error:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{len(self._unacked)} messages are not acknowledged; no progress for {patience:.0f} s: {error}"
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
            # Everything, in its order: the server knows by the ids what it has.
            self._buffer, self._again = list(self._unacked.values()), False
        if self._buffer:
            data = b"".join(self._buffer)
            self._buffer, self._buffered = [], 0
            self._connection.send(data)

    def _receive(self) -> None:
        arrivals = self._connection.receive(SILENCE_SECONDS)
        if not arrivals and not self._connection.heard(SILENCE_SECONDS):
            self._connection.verify(SILENCE_SECONDS)
            # The server is there and the answers are not: ask again, as a new leader may know nothing of them.
            self._again = True
            raise Unavailable("JetStream does not acknowledge")
        for arrival in arrivals:
            self._acknowledged(arrival)

    def _acknowledged(self, answer: Arrival) -> None:
        frame = self._unacked.get(answer.subject)
        if frame is None:
            return
        data = answer.data
        if answer.status == "503":
            subject = frame.split(b" ", 2)[1].decode("utf-8", "replace")
            self._again = True
            raise Unavailable(f"no stream takes {subject}, or JetStream is away")
        if b'"seq"' not in data or b'"error"' in data:
            subject = frame.split(b" ", 2)[1].decode("utf-8", "replace")
            raise Refused(f"a message to {subject} was not stored: {data[:300].decode('utf-8', 'replace')}", status=507)
        del self._unacked[answer.subject]
        self._unacked_bytes -= len(frame)
        is_duplicate = b'"duplicate"' in data and bool(json.loads(data).get("duplicate"))
        self.duplicates += is_duplicate
        self.stored += not is_duplicate
        if self._on_ack is not None:
            said = json.loads(data)
            self._on_ack(Ack(str(said["stream"]), int(said["seq"]), is_duplicate))
