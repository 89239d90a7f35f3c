"""A range of sequences by batched Direct Get: for streams on which a consumer counts as interest, or is not allowed.

Any replica answers, so a short answer proves nothing by itself: the end is proved as in `pull`. Needs a server of 2.11
and `allow_direct` on the stream. Costs the server 3 to 4 times the work of a consumer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Bulk
from pyspark_jetstream.client.api import BlockingApi
from pyspark_jetstream.client.messages import NOTHING, Messages, gotten
from pyspark_jetstream.client.patience import SILENCE_SECONDS, Lag, read_on
from pyspark_jetstream.client.subjects import matching

BATCH_MESSAGES = 8192
# There is no flow control: a whole batch comes at once.
BATCH_BYTES = 4 * 1024 * 1024


def read_direct(
    jetstream: BlockingApi, stream: str, start: int, end: int, filters: Sequence[str] = ()
) -> Iterator[Messages]:
    """Read by Direct Get; arguments and errors are those of `read_pulled`."""
    return read_on(_Read(jetstream, stream, start, end, filters), jetstream.connection.access.timeout)


class _Read:
    """The reading of one range, a `patience.RangeReading`."""

    def __init__(self, jetstream: BlockingApi, stream: str, start: int, end: int, filters: Sequence[str]) -> None:
        self.next = start
        self.done = start >= end
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self.stream = stream
        self._end = end
        self._filters = filters
        self._lag = Lag()

    def consume(self) -> Iterator[Messages]:
        """Hand out batch after batch."""
        sid = self._connection.new_sid()
        bulk = Bulk(sid, answers=True)
        self._connection.bulk = bulk
        inbox = f"{self._connection.inbox}_{sid}"
        try:
            self._connection.send(nats_wire.subscribe(inbox, sid))
            while not self.done:
                bulk.clear()
                has_more = self._batch(bulk, inbox)
                chunk = self._taken(bulk)
                if not has_more and not self.done:
                    self.done = self._is_end_by_leader()
                if len(chunk):
                    self._lag.clear()
                    yield chunk
                elif not has_more and not self.done:
                    self._wait_for_leader()
        finally:
            self._connection.bulk = None

    def _wait_for_leader(self) -> None:
        """The replica lacks messages of the leader. A server asks its own replica first, so we may have to leave it."""
        if self._lag.is_too_long():
            self._lag.clear()
            self._connection.leave()
        raise Unavailable("the replica that answers lags behind the leader")

    def _batch(self, bulk: Bulk, inbox: str) -> bool:
        """Receive one batch; says whether the replica has more behind it."""
        generation = self._connection.generation
        body = json.dumps(self._wanted()).encode()
        subject = self._jetstream.subject(f"DIRECT.GET.{self.stream}")
        self._connection.send(nats_wire.publish(subject, body, inbox, None, 1024 * 1024))
        while True:
            came = len(bulk)
            arrivals = self._connection.receive(SILENCE_SECONDS)
            if self._connection.generation != generation:
                raise Unavailable("the connection was made anew")
            for arrival in arrivals:
                if arrival.subject == inbox:
                    return self._more_after(
                        arrival.status, arrival.description, arrival.headers.get("nats-num-pending", "0")
                    )
            if not arrivals and len(bulk) == came and not self._connection.is_amid(SILENCE_SECONDS):
                self._connection.verify(SILENCE_SECONDS)
                raise Unavailable("Direct Get has not answered to its end")

    def _wanted(self) -> dict[str, Any]:
        # The server knows one filter only.
        only = self._filters[0] if len(self._filters) == 1 else ">"
        count = min(BATCH_MESSAGES, self._end - self.next)
        return {"seq": max(self.next, 1), "batch": count, "max_bytes": BATCH_BYTES, "next_by_subj": only}

    def _more_after(self, status: str, description: str, pending: str) -> bool:
        if status == "204":
            return pending != "0"
        if status == "404":
            return False
        if status == "503":
            raise Unavailable(f"no replica of {self.stream} serves Direct Get: does it have allow_direct?")
        raise Refused(f"Direct Get on {self.stream} says {status} {description!r}", status=int(status or 500))

    def _taken(self, bulk: Bulk) -> Messages:
        if not len(bulk):
            return NOTHING
        found = gotten(bulk)
        messages = found.messages
        sequences = messages.sequences
        if list(found.before[1:]) != list(sequences[:-1]):
            raise Unavailable("of the answers of Direct Get some were lost on the way")
        self.next = sequences[-1] + 1
        self.done = self.next >= self._end
        messages = messages.before(self._end)
        if len(self._filters) > 1:
            wanted = matching(self._filters)
            messages = messages.chosen([at for at, subject in enumerate(messages.subjects) if wanted(subject.decode())])
        return messages

    def _is_end_by_leader(self) -> bool:
        message = self._jetstream.message_after(self.stream, self.next, self._filters)
        return message is None or int(message["seq"]) >= self._end
