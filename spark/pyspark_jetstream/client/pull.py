"""A range of sequences by an ephemeral consumer without acks, in memory, which goes by itself when we are gone.

The read proves its end: by a message at or behind the range's last sequence, or by the stream's leader, which knows of
no further message in the range. So neither a follower that lags nor a connection that breaks can make a read too short.
The consumer's own numbers show lost messages, and another consumer reads those again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival, Bulk
from headrace.core.nats.pull_status import PullEnd, PullLimits, pull_end, told_limits
from pyspark_jetstream.client.api import FIRST_ANSWER_SECONDS, LONGEST_ANSWER_SECONDS, BlockingApi
from pyspark_jetstream.client.messages import NOTHING, Delivered, Messages, ack_numbers, delivered
from pyspark_jetstream.client.patience import SILENCE_SECONDS, Lag, read_on

# One chunk: large enough that the work for each chunk hardly counts, small enough for an executor's memory.
CHUNK_ROWS = 8192
CHUNK_BYTES = 4 * 1024 * 1024
# One pull, of which two are open: far below the 64 MiB at which a server takes us for a slow consumer.
PULL_MESSAGES = 8192
PULL_BYTES = 8 * 1024 * 1024
MOST_PULL_BYTES = 48 * 1024 * 1024
EXPIRES_SECONDS = 20.0
HEARTBEAT_SECONDS = 1.0
INACTIVE_SECONDS = 30.0
_NANOSECONDS = 1_000_000_000


class _Interrupted(Unavailable):
    """The consumer is gone or a message was lost: the reading goes on behind the last chunk with another consumer."""


def read_pulled(
    jetstream: BlockingApi, stream: str, start: int, end: int, filters: Sequence[str] = ()
) -> Iterator[Messages]:
    """The messages with `start <= sequence < end`, in chunks that are not empty.

    Args:
        filters: subjects with wildcards, none of which includes another; empty for all.

    Raises:
        Unavailable: there was no progress for as long as the access's timeout.
        Refused: the server does not let us.
    """
    return read_on(_Read(jetstream, stream, start, end, filters), jetstream.connection.access.timeout)


class _Read:
    """The reading of one range, a `patience.RangeReading`.

    Attributes:
        pull_bytes: how many one pull asks for; grows when a single message is larger.
        limits: the server's limits for one pull, as it has reported them.
    """

    def __init__(self, jetstream: BlockingApi, stream: str, start: int, end: int, filters: Sequence[str]) -> None:
        self.next = start
        self.done = start >= end
        self.jetstream = jetstream
        self.stream = stream
        self.end = end
        self._filters = filters
        self.pull_bytes = PULL_BYTES
        self.limits = PullLimits()
        self._answer_seconds = FIRST_ANSWER_SECONDS

    def consume(self) -> Iterator[Messages]:
        """Make a consumer and hand out its messages."""
        name = f"spark_{secrets.token_hex(8)}"
        is_answered = True
        try:
            waiting = self._make(name)
            flow = _Flow(self, name)
            if not waiting and self.is_end_by_leader(self.next):
                self.done = True
            while not self.done:
                chunk = flow.chunk()
                if chunk.sequences:
                    yield chunk
        except Unavailable:
            is_answered = False
            raise
        finally:
            self.jetstream.connection.bulk = None
            self.jetstream.delete_consumer(self.stream, name, wait=is_answered)

    def _make(self, name: str) -> int:
        try:
            waiting = self.jetstream.make_consumer(self.stream, name, self._config(), self._answer_seconds)
        except Unavailable:
            # This name is given up; the next one gets more time, in case the cores are only busy.
            self._answer_seconds = min(2 * self._answer_seconds, LONGEST_ANSWER_SECONDS)
            raise
        self._answer_seconds = FIRST_ANSWER_SECONDS
        return waiting

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(self.next, 1),
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int(INACTIVE_SECONDS * _NANOSECONDS),
        }
        if len(self._filters) == 1:
            config["filter_subject"] = self._filters[0]
        elif self._filters:
            config["filter_subjects"] = list(self._filters)
        return config

    def is_end_by_leader(self, sequence: int) -> bool:
        message = self.jetstream.message_after(self.stream, sequence, self._filters)
        return message is None or int(message["seq"]) >= self.end


class _Flow:
    """The pulls on one consumer. Each is sent before all messages of the last have come: the server never waits."""

    def __init__(self, read: _Read, name: str) -> None:
        self._read = read
        self._connection = read.jetstream.connection
        self._generation = self._connection.generation
        self._target = read.jetstream.subject(f"CONSUMER.MSG.NEXT.{read.stream}.{name}")
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        sid = self._connection.new_sid()
        self._bulk = Bulk(sid)
        self._connection.bulk = self._bulk
        self._serial = 0
        self._asked = 0  # messages that were asked for and have not come; the server spreads them over open pulls
        self._counted = 0  # messages of the bulk that are accounted for
        self._delivered = 0  # the consumer's own number of the last message that was handed out
        self._is_idle = False  # the server had nothing to send, so that it may be the end
        self._lag = Lag()
        self._connection.send(nats_wire.subscribe(f"{self._inbox}.*", sid))

    def chunk(self) -> Messages:
        """The next messages; empty when only statuses have come."""
        self._is_idle = False
        while True:
            self._count()
            if len(self._bulk) >= CHUNK_ROWS or self._bulk.size >= CHUNK_BYTES or self._is_last() or self._is_idle:
                return self._taken()
            self._pull()
            self._receive()

    def _count(self) -> None:
        self._asked -= len(self._bulk) - self._counted
        self._counted = len(self._bulk)

    def _is_last(self) -> bool:
        """Whether the newest message is the last of the range, or the last one that the consumer knows of."""
        if not self._bulk.replies:
            return False
        sequence, _, _, pending = ack_numbers(self._bulk.replies[-1])
        return sequence >= self._read.end - 1 or not pending

    def _pull(self) -> None:
        expires = timedelta(seconds=EXPIRES_SECONDS)
        most, expires, _ = self._read.limits.within(PULL_MESSAGES, expires, 0)
        if self._asked > most // 2:
            return
        # A pull never needs more messages than there are sequences left; with gaps fewer would do.
        left = self._read.end - self._read.next - len(self._bulk) - self._asked
        if self._asked > 0 and left <= 0:
            return
        count = max(1, min(most, left))
        self._asked = max(self._asked, 0) + count
        self._serial += 1
        wanted = {
            "batch": count,
            "max_bytes": self._read.pull_bytes,
            "expires": int(expires.total_seconds() * _NANOSECONDS),
            # The server accepts at most half of the expiry.
            "idle_heartbeat": int(min(HEARTBEAT_SECONDS, expires.total_seconds() / 2) * _NANOSECONDS),
        }
        inbox = f"{self._inbox}.{self._serial}"
        self._connection.send(nats_wire.publish(self._target, json.dumps(wanted).encode(), inbox, None, 1024 * 1024))

    def _receive(self) -> None:
        arrivals = self._connection.receive(SILENCE_SECONDS)
        if self._connection.generation != self._generation:
            raise _Interrupted("the connection was made anew")
        if not arrivals and len(self._bulk) == self._counted:
            # Silence, or half a message: is the server gone, or only the consumer?
            self._quiet()
        for arrival in arrivals:
            if arrival.subject.startswith(self._inbox):
                self._on_status(arrival)

    def _quiet(self) -> None:
        if self._connection.is_amid(SILENCE_SECONDS):
            return
        self._connection.verify(SILENCE_SECONDS)
        if len(self._bulk) == self._counted:
            raise _Interrupted("the consumer is silent")

    def _on_status(self, status: Arrival) -> None:
        end = pull_end(status.status, status.description)
        if end is None:
            self._is_idle = True
            return
        self._asked -= int(status.headers.get("nats-pending-messages", self._asked))
        match end:
            case PullEnd.EXPIRED:
                self._is_idle = True
            case PullEnd.FILLED:
                # None of the pull's bytes were used, so not even one message fits.
                if int(status.headers.get("nats-pending-bytes", 0)) == self._read.pull_bytes:
                    self._read.pull_bytes = min(self._read.pull_bytes * 2, MOST_PULL_BYTES)
            case PullEnd.LIMITED | PullEnd.REFUSED:
                self._obey(status.description)
            case _:
                raise _Interrupted(f"the server says {status.status} {status.description!r}")

    def _obey(self, words: str) -> None:
        """Keep to the server's limit of messages or of time; a limit of bytes may be below a single message."""
        limits = self._read.limits.and_also(told_limits(words))
        if limits.max_bytes or limits == self._read.limits:
            raise Refused(f"the limits of the stream's consumers refuse our pulls: {words}", status=403)
        self._read.limits = limits

    def _taken(self) -> Messages:
        read = self._read
        if not len(self._bulk):
            if read.is_end_by_leader(read.next):
                read.done = True
            elif self._lag.is_too_long():
                raise _Interrupted("the consumer's server lags behind the leader")
            return NOTHING
        self._lag.clear()
        found = self._parsed()
        messages = found.messages
        reached = messages.sequences[-1] + 1
        self._bulk.clear()
        self._counted = 0
        if reached >= read.end:
            read.done = True
            messages = messages.before(read.end)
        elif (self._is_idle or not found.pending) and read.is_end_by_leader(reached):
            read.done = True
        read.next = reached
        return messages

    def _parsed(self) -> Delivered:
        """The bulk's messages, if none was lost on the way."""
        found = delivered(self._bulk)
        count = len(found.messages)
        if found.first != self._delivered + 1 or found.last != self._delivered + count:
            raise _Interrupted(f"of the consumer's messages up to number {found.last} some were lost on the way")
        self._delivered = found.last
        return found
