"""Spark's two writers: pickled to the executors, so they hold values only.

Spark has no place for a program before an epoch's tasks, and only tasks know the query's id. So tasks begin an epoch,
and their messages tell the driver everything that it has to know.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.core.errors import Misconfigured
from pyspark_jetstream.client import BlockingApi, Connection
from pyspark_jetstream.option_values import wrong
from pyspark_jetstream.writing import marker, target
from pyspark_jetstream.writing.columns import Parts, parts
from pyspark_jetstream.writing.ledger import MOST_DIGESTS, refuse_uncovered
from pyspark_jetstream.writing.marker import Batch
from pyspark_jetstream.writing.options import WriteOptions
from pyspark_jetstream.writing.summary import Summary, content
from pyspark_jetstream.writing.task import PartitionReport, RowsOf, write

_log = logging.getLogger("pyspark_jetstream")
_EPOCH = "streaming.sql.batchId"
_QUERY = "sql.streaming.queryId"
# The driver's part is a new process each time, which can't know the earlier warnings.
_WARN_EVERY = 100


def look(options: WriteOptions, columns: str | None = None) -> None:
    """Check on the driver, before there is any task, that NATS accepts us and the rows.

    Args:
        columns: those of a batch, as `named` gives them; None when they are not known yet.

    Raises:
        Misconfigured: there is no such target, or no marker can be kept for it.
        Refused: a run of this name was begun with another batch.
        Unavailable: NATS or JetStream is not there.
    """
    with Connection(options.access, name="spark planning", planning=True) as connection:
        jetstream = BlockingApi(connection)
        if not options.subject:
            # Each row has its own subject, so we can only check that NATS accepts us.
            _ = connection.link
            return
        one = target.find(jetstream, options.subject)
        if not options.marker_stream:
            return
        target.check_retention(one)
        if options.run and jetstream.stream(options.marker_stream) is not None:
            found = marker.Markers(jetstream, options.marker_stream).find(options.run, one.stream)
            if found is not None and found.marker.created == one.created:
                now = found.marker.columns if columns is None else columns
                marker.refuse_another(found.marker, Batch(columns=now, selection=options.selection))


@dataclass
class Committed(WriterCommitMessage):
    """A task's report to the driver."""

    report: PartitionReport


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("jetstream").mode("append")`."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._parts = _checked(options, schema, overwrite=overwrite)
        # The name is made once, on the driver, so that a task that is tried again has the same.
        self._run = options.run or uuid4().hex
        self.batch = Batch(uuid4().hex[:12], named(schema), options.selection)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        place = RowsOf(self._run, 0, _context().partitionId(), self.batch)
        return Committed(write(iterator, self._parts, self._options, place))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(messages, self._options, warn=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Spark calls it also when the commit has failed."""
        summary = Summary.of(_reports(messages))
        if summary.is_passed:
            # The commit has already reported that the run was complete before, so no row is new.
            return
        again = f"they are written again with runId {self._run}"
        _log.warning("not all of the rows could be written: %s", unknown(summary, again, self._options))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("jetstream")`. An epoch is identified by the query's id, which lies in its checkpoint."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        self._options = options
        self._parts = _checked(options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query, epoch = context.getLocalProperty(_QUERY), context.getLocalProperty(_EPOCH)
        if query is None or epoch is None:
            raise Misconfigured("Spark does not tell the query and the batch: PySpark 4.2 or later does", field="spark")
        place = RowsOf(query, int(epoch), context.partitionId())
        return Committed(write(iterator, self._parts, self._options, place))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _commit(messages, self._options, warn=batchId % _WARN_EVERY == 0)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        again = "the query is started again on its checkpoint"
        words = unknown(Summary.of(_reports(messages)), again, self._options)
        _log.warning("not all of batch %d could be written: %s", batchId, words)


def _commit(messages: Sequence[WriterCommitMessage | None], options: WriteOptions, *, warn: bool) -> None:
    reports = _reports(messages)
    summary = Summary.of(reports)
    _log.log(logging.WARNING if summary.skipped else logging.INFO, "%s", summary.line())
    if warn:
        for words in {warning(one, options) for one in reports} - {""}:
            _log.warning("%s", words)
    if options.marker_stream and reports:
        place, stream = reports[0].place, reports[0].stream
        with Connection(options.access, name="spark commit") as connection:
            markers = marker.Markers(BlockingApi(connection), options.marker_stream)
            if options.run:
                _check_covered(markers, reports)
            rows = sum(one.rows for one in reports)
            markers.complete(place.run, stream, place.epoch, rows, content(reports) if options.run else "")
            if options.run:
                markers.ledger(place.run, stream).forget()
    if options.summary_file and reports:
        _note(summary.record(reports[0].place, reports[0].stream), options.summary_file)


def _check_covered(markers: marker.Markers, reports: Sequence[PartitionReport]) -> None:
    """Check that all rows of a run's broken-off try are there. A task can check only its own partition.

    Raises:
        Refused: some are missing.
    """
    place, stream = reports[0].place, reports[0].stream
    found = markers.find(place.run, stream)
    if found is None or found.marker.is_complete or found.marker.begun_by in ("", place.batch.attempt):
        return
    if max(one.rows for one in reports) > MOST_DIGESTS:
        # The ledger has not noted all rows of this try.
        return
    ledger = markers.ledger(place.run, stream)
    had, has = ledger.of(found.marker.begun_by), ledger.of(place.batch.attempt)
    refuse_uncovered(place.run, stream, had, has, by_partition=not reports[0].has_own_ids)


def named(schema: StructType) -> str:
    """Names and types as a commit marker has them, sorted, since the order of columns does not matter."""
    return ", ".join(sorted(f"{field.name} {field.dataType.simpleString()}" for field in schema))


def _note(record: Mapping[str, object], file: str) -> None:
    """Add a line to the summary file. All rows are stored by now, so an error here is no failure of the write."""
    try:
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record) + "\n")
    except OSError as error:
        _log.warning("summaryFile %s can't be written (%s): %s", file, error.strerror, json.dumps(record))


def unknown(summary: Summary, again: str, options: WriteOptions) -> str:
    """The knowledge after a failed write: tasks that failed do not report what they have stored.

    Args:
        again: how to write the same rows once more.
    """
    ended = f"; of the tasks that ended: {summary.line()}" if summary.tasks else ""
    once = "" if options.marker_stream else ", as long as the stream remembers message ids"
    return f"an unknown part may be stored{ended}. What is stored is not stored twice when {again}{once}"


def warning(report: PartitionReport, options: WriteOptions) -> str:
    """The warning about the target for the user; empty when there is none."""
    if report.window_seconds is None or options.marker_stream:
        return ""
    return target.short_window(report.stream, report.window_seconds)


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[PartitionReport]:
    return [message.report for message in messages if isinstance(message, Committed)]


def _checked(options: WriteOptions, schema: StructType, *, overwrite: bool) -> Parts:
    """The parts of the rows; the rest is checked, too, on the driver and before any row is written."""
    if overwrite:
        raise Misconfigured("a stream can't be overwritten, only appended to: use mode append", field="mode")
    file = options.summary_file
    if file and not Path(file).parent.is_dir():
        raise wrong("summaryFile", file, "there is no such folder on the driver's machine: make it, or name another")
    if file and Path(file).is_dir():
        raise wrong("summaryFile", file, "it is a folder: name a file in it, to which lines are added")
    return parts(((field.name, field.dataType.simpleString()) for field in schema), options)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls write in its tasks"
    return context
