"""One partition of one epoch, from its first row to its last ack. Runs in an executor; knows nothing of Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TypeGuard

import pyarrow as pa

from headrace.core.errors import Refused
from pyspark_jetstream.client import BlockingApi, Connection, FastPublisher, Outgoing, Publisher
from pyspark_jetstream.writing import columns, ids, marker, messages, target
from pyspark_jetstream.writing.columns import Parts
from pyspark_jetstream.writing.ids import ContentIds
from pyspark_jetstream.writing.ledger import DIGEST_BYTES, Ledger, refuse_missing
from pyspark_jetstream.writing.marker import NO_BATCH, Batch
from pyspark_jetstream.writing.messages import RowFault
from pyspark_jetstream.writing.options import CONTENT, SKIP, WriteOptions
from pyspark_jetstream.writing.spool import Spool
from pyspark_jetstream.writing.target import Target

# Only so many faults travel to the driver; all are counted.
MOST_SHOWN = 5
_ID_AT = len(b"NATS/1.0\r\nNats-Msg-Id: ")
CONTENT_MODULUS = 2**64
# So many rows enter the ledger before any is published. Each time all acks are awaited, so these are several windows.
_NOTED_ROWS = 16_384
_NOTED_BYTES = 8 * 1024 * 1024
# A shorter pause is added to the next one.
_PAUSE_SECONDS = 0.05


class FaultyRow(Refused):
    """A row that can't be stored, with its place and the reason."""


@dataclass(frozen=True, slots=True)
class RowsOf:
    """The identity of a partition's rows; it is the same when they are written again, except for the try at a batch."""

    run: str
    epoch: int
    partition: int
    batch: Batch = NO_BATCH


@dataclass(slots=True)
class PartitionReport:
    """The fate of a partition's rows.

    Attributes:
        stored: acknowledged rows; with fast ingest they include those that the server had.
        duplicates: rows that were acknowledged as being there already.
        known: rows that were not sent, since the commit marker or the target's own messages prove that they are there.
        skipped: faulty rows, with `onFaultyRow` skip; `faults` describes the first ones.
        is_passed: the commit marker says that all of them were stored before.
        content: the sum of the row hashes of a run with a name and a marker; the rows' order does not change it.
        has_own_ids: ids come from events or a column, and so do not depend on a row's partition.
        window_seconds: how long the target remembers ids; None when there is no single target.
    """

    place: RowsOf
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
    has_own_ids: bool = False
    window_seconds: float | None = None
    faults: list[str] = field(default_factory=list)


def write(batches: Iterable[pa.RecordBatch], parts: Parts, options: WriteOptions, place: RowsOf) -> PartitionReport:
    """Store all rows; they are acknowledged when this returns.

    Raises:
        FaultyRow: a row can't be stored, and such rows are not to be skipped.
        Misconfigured, Refused, Unavailable: as the client raises them.
    """
    with Connection(options.access, name=f"spark write {place.partition}") as connection:
        jetstream = BlockingApi(connection)
        one = target.find(jetstream, options.subject) if options.subject else None
        has_own_ids = options.msg_ids != CONTENT or columns.MSG_ID in parts.others
        task = _Task(connection, parts, options, place, one, has_own_ids=has_own_ids)
        if options.marker_stream and one is not None and not task.enter(jetstream, one):
            return task.passed(batches)
        for batch in task.begun(iter(batches)):
            task.take(batch)
        return task.finished()


class _Task:
    def __init__(
        self,
        connection: Connection,
        parts: Parts,
        options: WriteOptions,
        place: RowsOf,
        one: Target | None,
        *,
        has_own_ids: bool,
    ) -> None:
        self.report = PartitionReport(place)
        if one is not None:
            self.report.stream, self.report.window_seconds = one.stream, one.window_seconds
        self.report.has_own_ids = has_own_ids
        self._parts = parts
        self._options = options
        self._place = place
        self._prefix = ids.prefix(place.run, place.epoch, place.partition)
        self._ids = ContentIds(self._prefix)
        self._known: set[bytes] = set()
        self._most = target.most_bytes(options, connection.max_payload, one)
        self._window = Publisher(connection, window=options.window, on_refusal=self._refused)
        self._publisher: Publisher | FastPublisher = self._window
        if options.fast and one is not None and one.allows_fast:
            self._publisher = FastPublisher(connection, self._window, most=options.window)
            self.report.is_fast = True
        # Only a batch with a name has a ledger: Spark itself knows which rows an epoch of a streaming query has.
        self._ledger: Ledger | None = None
        self._had: set[bytes] = set()  # digests of the first try at the run, if this is a later one
        self._turn = 0.0  # when the next row may be published, on the monotonic clock

    def enter(self, jetstream: BlockingApi, one: Target) -> bool:
        """Whether there are rows to write; also reads which ones are known to be stored."""
        target.check_retention(one)
        markers = marker.Markers(jetstream, self._options.marker_stream)
        markers.ensure(one.replicas)
        place, has_own_ids = self._place, self.report.has_own_ids
        found, decision = markers.entered(
            place.run, place.epoch, lambda: target.look_up(jetstream, one.stream), place.batch
        )
        if self._options.run:
            self._ledger = markers.ledger(place.run, one.stream)
            # Rows with ids of their own may be in another partition now, so only the driver can judge them.
            if found.begun_by not in ("", place.batch.attempt) and not has_own_ids and not decision.passes:
                self._had = self._ledger.of(found.begun_by, place.partition).get(place.partition, set())
        if decision.reads:
            # Ids that are not made here have no prefix, so then all ids of the target are read.
            prefix = "" if has_own_ids else self._prefix
            now = target.look_up(jetstream, one.stream)
            self._known = marker.ids_behind(jetstream, found, now, self._options.subject, prefix)
        return not decision.passes

    def passed(self, batches: Iterable[pa.RecordBatch]) -> PartitionReport:
        """Count the rows of a stored epoch without sending them; the driver judges whether they are the same rows."""
        report = self.report
        report.is_passed = True
        for batch in batches:
            if self._ledger is not None:
                for one in messages.messages(batch, self._parts, self._options, self._ids, report.rows):
                    if self._is_good(one):
                        self._add(self._content(one))
            report.rows += batch.num_rows
        report.known = report.rows
        return report

    def begun(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, held back until all rows have been seen that the run had in this partition before.

        Raises:
            Refused: some of those rows are missing.
        """
        missing = set(self._had)
        if missing:
            again, rows = ContentIds(self._prefix), 0
            with Spool() as spool:
                for batch in batches:
                    spool.add(batch)
                    found = messages.messages(batch, self._parts, self._options, again, rows)
                    missing.difference_update(self._key(one, self._content(one)) for one in found if self._is_good(one))
                    rows += batch.num_rows
                    if not missing:
                        break
                refuse_missing(self._place.run, self._place.partition, len(self._had), len(missing))
                yield from spool.batches()
        yield from batches

    def take(self, batch: pa.RecordBatch) -> None:
        report, send, most = self.report, self._publisher.send, self._most
        rate, known = self._options.rows_per_second, self._known
        rows = messages.messages(batch, self._parts, self._options, self._ids, report.rows)
        if self._ledger is not None:
            rows = self._noted(rows, self._ledger)
        for one in rows:
            report.rows += 1
            if isinstance(one, RowFault):
                self._faulty(one)
                continue
            size = len(one.block) + len(one.data)
            if size > most:
                self._faulty(RowFault(one.row, f"has {size} bytes: at most {most} can be stored"))
                continue
            if known and _id_of(one.block) in known:
                report.known += 1
                continue
            report.bytes += size
            send(one)
            if rate:
                self._wait_for_turn(rate)

    def finished(self) -> PartitionReport:
        self._publisher.finish()
        report = self.report
        report.stored, report.duplicates = self._publisher.stored, self._publisher.duplicates
        report.most_unacked = max(self._publisher.most, self._window.most)
        return report

    def _wait_for_turn(self, rate: int) -> None:
        """Wait as the rate demands; time without rows to publish is not made up for."""
        now = time.monotonic()
        self._turn = max(self._turn, now - _PAUSE_SECONDS) + 1 / rate
        if self._turn - now > _PAUSE_SECONDS:
            self._publisher.flush()
            time.sleep(self._turn - now)

    def _noted(self, rows: Iterator[Outgoing | RowFault], ledger: Ledger) -> Iterator[Outgoing | RowFault]:
        """The same rows, some at a time, after the ledger has noted that the run has them."""
        while some := list(_some(rows)):
            keys = []
            for one in some:
                if self._is_good(one):
                    content = self._content(one)
                    self._add(content)
                    keys.append(self._key(one, content))
            ledger.add(self._place.partition, self._place.batch.attempt, keys)
            yield from some

    def _is_good(self, one: Outgoing | RowFault) -> TypeGuard[Outgoing]:
        return not isinstance(one, RowFault) and len(one.block) + len(one.data) <= self._most

    def _add(self, content: bytes) -> None:
        self.report.content = (self.report.content + int.from_bytes(content, "big")) % CONTENT_MODULUS

    def _key(self, one: Outgoing, content: bytes) -> bytes:
        """The ledger's key of a row: an id that is not made here identifies it, otherwise its content does."""
        id = _id_of(one.block)
        if id.startswith(self._prefix.encode()):
            return content
        return blake2b(b"%b %b" % (one.subject.encode(), id), digest_size=DIGEST_BYTES).digest()

    def _content(self, one: Outgoing) -> bytes:
        """The hash of a row's content, without an id that is made here: such an id contains the partition."""
        is_ours = _id_of(one.block).startswith(self._prefix.encode())
        block = one.block[one.block.index(b"\r\n", _ID_AT) :] if is_ours else one.block
        digest = blake2b(b"%d:%d:" % (len(one.subject), len(block)), digest_size=DIGEST_BYTES)
        digest.update(one.subject.encode())
        digest.update(block)
        digest.update(one.data)
        return digest.digest()

    def _refused(self, message: Outgoing, refusal: Refused) -> None:
        self._faulty(RowFault(message.row, str(refusal)))

    def _faulty(self, fault: RowFault) -> None:
        words = f"row {fault.row} of partition {self._place.partition}: {fault.reason}"
        if self._options.on_faulty_row != SKIP:
            raise FaultyRow(f"{words}. Set onFaultyRow to skip to write the others", status=400)
        self.report.skipped += 1
        if len(self.report.faults) < MOST_SHOWN:
            self.report.faults.append(words)


def _some(rows: Iterator[Outgoing | RowFault]) -> Iterator[Outgoing | RowFault]:
    """The next rows, few enough to be held in memory."""
    size = 0
    for one in islice(rows, _NOTED_ROWS):
        yield one
        size += 0 if isinstance(one, RowFault) else len(one.block) + len(one.data)
        if size >= _NOTED_BYTES:
            return


def _id_of(block: bytes) -> bytes:
    """The id in a header block that we have made, in which it comes first."""
    return block[_ID_AT : block.index(b"\r\n", _ID_AT)]
