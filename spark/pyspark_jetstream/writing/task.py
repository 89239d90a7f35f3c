"""One partition of one epoch, from its first row to its last ack. Runs in an executor; knows nothing of Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Any

import pyarrow as pa

from headrace.core.errors import Misconfigured, Refused
from headrace.core.plural import counted
from pyspark_jetstream.client import Connection, FastPublisher, JetStream, Outgoing, Publisher
from pyspark_jetstream.writing import columns, ids, marker, messages, target
from pyspark_jetstream.writing.columns import Parts
from pyspark_jetstream.writing.ids import ContentIds
from pyspark_jetstream.writing.messages import Fault
from pyspark_jetstream.writing.options import CONTENT, SKIP, WriteOptions
from pyspark_jetstream.writing.target import Target

# Faults that travel to the driver; all are counted.
MOST_SHOWN = 5
_ID_AT = len(b"NATS/1.0\r\nNats-Msg-Id: ")
_CONTENT_MODULUS = 2**64
# A pause shorter than that is left to the next one.
_PAUSE_SECONDS = 0.05


class FaultyRow(Refused):
    """A row that can't be stored, with its place and the reason."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which rows these are; the same whenever they are written again."""

    run: str
    epoch: int
    partition: int


@dataclass(slots=True)
class Written:
    """What has become of the rows of a partition.

    Attributes:
        stored: acknowledged; with fast ingest with those that the server had.
        duplicates: acknowledged as being there already.
        known: not sent, since the commit marker or the target's own messages say that they are there.
        skipped: faulty, with `onFaultyRow` skip; `faults` holds the first ones in words.
        is_passed: the commit marker says that all of them were stored before.
        content: of a run with a name and a marker, the sum of the hashes of its rows, which no order changes.
        window_seconds: how long the target remembers ids; None when there is no single target.
    """

    place: Place
    stream: str = ""
    rows: int = 0
    stored: int = 0
    duplicates: int = 0
    known: int = 0
    skipped: int = 0
    bytes: int = 0
    most_unacked: int = 0
    is_fast: bool = False
    is_passed: bool = False
    content: int = 0
    window_seconds: float | None = None
    faults: list[str] = field(default_factory=list)


def write(batches: Iterable[pa.RecordBatch], parts: Parts, options: WriteOptions, place: Place) -> Written:
    """Store all rows; they are acknowledged when this returns.

    Raises:
        FaultyRow: unless such are to be skipped.
        Misconfigured, Refused, Unavailable: as the client.
    """
    with Connection(options.access, name=f"spark write {place.partition}") as connection:
        jetstream = JetStream(connection)
        one = target.find(jetstream, options.subject) if options.subject else None
        has_own_ids = options.msg_ids != CONTENT or columns.MSG_ID in parts.others
        task = _Task(connection, options, place, one, has_own_ids=has_own_ids)
        if options.marker_stream and one is not None and not task.enter(jetstream, one):
            return task.passed(batches, parts)
        for batch in batches:
            task.take(batch, parts)
        return task.finished()


class _Task:
    def __init__(
        self, connection: Connection, options: WriteOptions, place: Place, one: Target | None, *, has_own_ids: bool
    ) -> None:
        self.written = Written(place)
        if one is not None:
            self.written.stream, self.written.window_seconds = one.stream, one.window_seconds
        self._options = options
        self._place = place
        self._has_own_ids = has_own_ids
        self._prefix = ids.prefix(place.run, place.epoch, place.partition)
        self._ids = ContentIds(self._prefix)
        self._known: set[bytes] = set()
        self._most = target.most_bytes(options, connection.max_payload, one)
        self._window = Publisher(connection, window=options.window, on_refusal=self._refused)
        self._publisher: Publisher | FastPublisher = self._window
        if options.fast and one is not None and one.allows_fast:
            self._publisher = FastPublisher(connection, self._window, most=options.window)
            self.written.is_fast = True
        # Of a streaming query Spark itself knows which rows an epoch has.
        self._has_content = bool(options.marker_stream and options.run)
        self._turn = 0.0  # when the next row may be published, on the monotonic clock

    def enter(self, jetstream: JetStream, one: Target) -> bool:
        """Whether there is something to write; with what is known to be there already, in hand."""
        if one.retention != "limits":
            raise Misconfigured(
                f"commitMarker can't work on stream {one.stream}: with {one.retention} retention, messages vanish that "
                "tell what was stored",
                field="commitMarker",
            )
        markers = marker.Markers(jetstream, self._options.marker_stream)
        markers.ensure(one.replicas)
        found, decision = markers.entered(
            self._place.run, self._place.epoch, lambda: target.read(jetstream, one.stream)
        )
        if decision.reads:
            # Ids that are not made here have no prefix: then all of the target's are asked for.
            prefix = "" if self._has_own_ids else self._prefix
            now = target.read(jetstream, one.stream)
            self._known = marker.ids_behind(jetstream, found, now, self._options.subject, prefix)
        return not decision.passes

    def passed(self, batches: Iterable[pa.RecordBatch], parts: Parts) -> Written:
        """All of it is stored: it is counted, and goes nowhere; whether it is the same is for the driver to say."""
        written = self.written
        written.is_passed = True
        for batch in batches:
            if self._has_content:
                for one in messages.messages(batch, parts, self._options, self._ids, written.rows):
                    if not isinstance(one, Fault) and len(one.block) + len(one.data) <= self._most:
                        self._add_content(one)
            written.rows += batch.num_rows
        written.known = written.rows
        return written

    def take(self, batch: pa.RecordBatch, parts: Parts) -> None:
        """Publish the rows of a batch."""
        written, send, most = self.written, self._publisher.send, self._most
        rate, known = self._options.rows_per_second, self._known
        for one in messages.messages(batch, parts, self._options, self._ids, written.rows):
            written.rows += 1
            if isinstance(one, Fault):
                self._faulty(one)
                continue
            size = len(one.block) + len(one.data)
            if size > most:
                self._faulty(Fault(one.row, f"has {size} bytes: at most {most} can be stored"))
                continue
            if self._has_content:
                self._add_content(one)
            if known and _id_of(one.block) in known:
                written.known += 1
                continue
            written.bytes += size
            send(one)
            if rate:
                self._wait_for_turn(rate)

    def finished(self) -> Written:
        self._publisher.finish()
        written = self.written
        written.stored, written.duplicates = self._publisher.stored, self._publisher.duplicates
        written.most_unacked = max(self._publisher.most, self._window.most)
        return written

    def _wait_for_turn(self, rate: int) -> None:
        """What was not used of a rate while there was nothing to publish is not made up for."""
        now = time.monotonic()
        self._turn = max(self._turn, now - _PAUSE_SECONDS) + 1 / rate
        if self._turn - now > _PAUSE_SECONDS:
            self._publisher.flush()
            time.sleep(self._turn - now)

    def _add_content(self, one: Outgoing) -> None:
        """Ids that are made of the content tell of the partition, too, and so are no part of it."""
        is_ours = _id_of(one.block).startswith(self._prefix.encode())
        block = one.block[one.block.index(b"\r\n", _ID_AT) :] if is_ours else one.block
        digest = blake2b(b"%d:%d:" % (len(one.subject), len(block)), digest_size=8)
        digest.update(one.subject.encode())
        digest.update(block)
        digest.update(one.data)
        total = self.written.content + int.from_bytes(digest.digest(), "big")
        self.written.content = total % _CONTENT_MODULUS

    def _refused(self, message: Outgoing, refusal: Refused) -> None:
        self._faulty(Fault(message.row, str(refusal)))

    def _faulty(self, fault: Fault) -> None:
        words = f"row {fault.row} of partition {self._place.partition}: {fault.reason}"
        if self._options.on_faulty_row != SKIP:
            raise FaultyRow(f"{words}. Set onFaultyRow to skip to write the others", status=400)
        self.written.skipped += 1
        if len(self.written.faults) < MOST_SHOWN:
            self.written.faults.append(words)


def _id_of(block: bytes) -> bytes:
    """Of a block that we have made: the id comes first."""
    return block[_ID_AT : block.index(b"\r\n", _ID_AT)]


def content(parts: Iterable[Written]) -> str:
    """What the rows of all tasks are, whichever task has which, and in whatever order; as a marker holds it."""
    return f"{sum(one.content for one in parts) % _CONTENT_MODULUS:016x}"


@dataclass(frozen=True, slots=True)
class Summary:
    """What has become of the rows of all tasks; the sums of `Written`, and the first faults of all."""

    tasks: int
    rows: int
    stored: int
    duplicates: int
    known: int
    skipped: int
    is_passed: bool
    faults: list[str]

    @classmethod
    def of(cls, parts: Iterable[Written]) -> Summary:
        found = list(parts)
        return cls(
            tasks=len(found),
            rows=sum(one.rows for one in found),
            stored=sum(one.stored for one in found),
            duplicates=sum(one.duplicates for one in found),
            known=sum(one.known for one in found),
            skipped=sum(one.skipped for one in found),
            is_passed=bool(found) and all(one.is_passed for one in found),
            faults=list(chain.from_iterable(one.faults for one in found))[:MOST_SHOWN],
        )

    def line(self) -> str:
        """One line for the log of the driver."""
        words = (
            f"{counted(self.rows, 'row')} in {counted(self.tasks, 'task')}: {self.stored} stored, "
            f"{self.duplicates} there already, "
            f"{self.known} not sent again, {self.skipped} faulty"
        )
        return f"{words}; {'; '.join(self.faults)}" if self.faults else words

    def record(self, place: Place, stream: str) -> dict[str, Any]:
        """As `summaryFile` has it."""
        return {
            "run": place.run,
            "batch": place.epoch,
            "stream": stream,
            "rows": self.rows,
            "stored": self.stored,
            "alreadyThere": self.duplicates,
            "notSentAgain": self.known,
            "faulty": self.skipped,
            "wasComplete": self.is_passed,
            "faults": self.faults,
        }
