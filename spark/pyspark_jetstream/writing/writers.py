"""Spark's two writers: pickled to the executors, so they hold values only.

Spark gives no place before an epoch's tasks and none that knows the query's id but a task: so tasks begin an epoch, and
tell the driver all that it has to know in their messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.core.errors import Misconfigured
from pyspark_jetstream.client import Connection, JetStream
from pyspark_jetstream.writing import marker, target
from pyspark_jetstream.writing.columns import Parts, parts
from pyspark_jetstream.writing.options import WriteOptions
from pyspark_jetstream.writing.task import Place, Written, content, summary, write

_log = logging.getLogger("pyspark_jetstream")
_EPOCH = "streaming.sql.batchId"
_QUERY = "sql.streaming.queryId"
# The driver's part is a new process each time, which can't know what was said before.
_WARN_EVERY = 100


@dataclass
class Committed(WriterCommitMessage):
    """What a task tells the driver."""

    written: Written


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("jetstream").mode("append")`."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        _refuse_overwrite(overwrite)
        self._options = options
        self._parts = _parts(schema, options)
        # Made once, on the driver: a task that is tried again has the same.
        self._run = options.run or uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        place = Place(self._run, 0, _context().partitionId())
        return Committed(write(iterator, self._parts, self._options, place))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(messages, self._options, warn=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _log.warning("not all of it could be written: %s", summary(_written(messages)))


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("jetstream")`. An epoch is known by the query's id, which lies in its checkpoint."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        _refuse_overwrite(overwrite)
        self._options = options
        self._parts: Parts = _parts(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query, epoch = context.getLocalProperty(_QUERY), context.getLocalProperty(_EPOCH)
        if query is None or epoch is None:
            raise Misconfigured("Spark does not tell the query and the batch: PySpark 4.2 or later does", field="spark")
        place = Place(query, int(epoch), context.partitionId())
        return Committed(write(iterator, self._parts, self._options, place))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _commit(messages, self._options, warn=batchId % _WARN_EVERY == 0)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _log.warning("not all of batch %d could be written: %s", batchId, summary(_written(messages)))


def _commit(messages: Sequence[WriterCommitMessage | None], options: WriteOptions, *, warn: bool) -> None:
    written = _written(messages)
    level = logging.WARNING if any(one.skipped for one in written) else logging.INFO
    _log.log(level, "%s", summary(written))
    if warn:
        for words in {warning(one, options) for one in written} - {""}:
            _log.warning("%s", words)
    if options.marker_stream and written:
        place, stream = written[0].place, written[0].stream
        with Connection(options.access, name="spark commit") as connection:
            markers = marker.Markers(JetStream(connection), options.marker_stream)
            rows = sum(one.rows for one in written)
            markers.complete(place.run, stream, place.epoch, rows, content(written) if options.run else "")


def warning(written: Written, options: WriteOptions) -> str:
    """What the user should know of the target; empty for nothing."""
    if written.window_seconds is None or options.marker_stream:
        return ""
    return target.short_window(written.stream, written.window_seconds)


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [message.written for message in messages if isinstance(message, Committed)]


def _parts(schema: StructType, options: WriteOptions) -> Parts:
    return parts(((field.name, field.dataType.simpleString()) for field in schema), options)


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise Misconfigured("a stream can't be overwritten, only appended to: use mode append", field="mode")


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "Spark calls write in its tasks"
    return context
