"""The streaming reader: offsets on the driver, in one process per query, and ranges in tasks.

Keeps nothing that a restart would miss: Spark's log has everything. `commit` has nothing to do, since a stream is read
without acks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_jetstream import offsets, plan, schema
from pyspark_jetstream.batch_reader import part
from pyspark_jetstream.batches import record_batches
from pyspark_jetstream.client import BlockingApi, Connection, StreamInfo
from pyspark_jetstream.offsets import At, OnLoss, ReadLimits
from pyspark_jetstream.option_values import wrong
from pyspark_jetstream.options import ReadOptions

_log = logging.getLogger("pyspark_jetstream")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark pickles the reader to the executors before it connects."""

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        schema.checked(((field.name, field.dataType.simpleString()) for field in wanted), options)
        self._options = options
        self._schema = wanted
        self._jetstream: BlockingApi | None = None
        self._selected: dict[str, plan.Selected] | None = None
        self._target: dict[str, StreamInfo] | None = None
        self._has_warned = False

    def initialOffset(self) -> dict[str, Any]:
        """Called twice on a first start, and again on each restart before the first batch is committed; the end
        offsets carry the answer that counts."""
        found = {}
        for name, info in self._states().items():
            at = plan.start_of(self._connected(), info, self._options, streaming=True)
            found[name] = At(at, at, info.created, init=True)
        return offsets.to_json(found)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark has one limit at a time; `latestOffset` obeys both."""
        if self._options.max_messages:
            return ReadMaxRows(self._options.max_messages)
        if self._options.max_bytes:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; equal to `start` when there is nothing new.

        A stream that the checkpoint does not know begins where the options say, in the first batch that is planned with
        it.
        """
        # Spark lifts the limit for a query that takes all at once (Trigger.Once).
        is_limited = not isinstance(limit, ReadAllAvailable)
        options = self._options
        limits = ReadLimits(options.max_messages, options.max_bytes) if is_limited else ReadLimits()
        states = self._states() if self._target is None else self._target
        on_loss = OnLoss(options.fail_on_data_loss, options.start_over)
        begun = offsets.from_json(start)
        joining = {
            name: plan.start_of(self._connected(), info, options, streaming=True)
            for name, info in states.items()
            if name not in begun
        }
        end = offsets.latest(begun, states, limits, on_loss, joining)
        left_out = {name: begun[name] for name in offsets.left_out(begun, states)}
        if left_out and not self._has_warned:
            _log.warning("%s", offsets.missing(left_out, states))
            self._has_warned = True
        return offsets.to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """For the progress report: the difference to the end offset is the backlog."""
        return offsets.to_json(
            {name: At(info.last + 1, info.first, info.created) for name, info in self._states().items()}
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end: messages that are stored from now on are for the next run."""
        self._target = self._states()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts between two offsets: the same messages at each call."""
        options = self._options
        wanted = offsets.ranges(offsets.from_json(start), offsets.from_json(end))
        cut = offsets.partitions(wanted, options.max_per_partition, options.min_partitions)
        streams = self._streams()
        found = []
        for one in cut:
            # A stream that is no longer read can still be in a batch that a restart has to finish.
            chosen = streams.get(one.stream) or self._former(one.stream)
            opens = one.opens and plan.is_open(options.starting, one.stream)
            found.append(InputPartition(part(_opening(one, opens), chosen, options)))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a task, and again from the beginning if the task is tried again."""
        if partition.value is not None:
            yield from record_batches(partition.value, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: messages are not acknowledged, and the stream's own limits decide how long they are kept."""

    def stop(self) -> None:
        if self._jetstream is not None:
            self._jetstream.connection.close()

    def _connected(self) -> BlockingApi:
        if self._jetstream is None:
            self._jetstream = BlockingApi(Connection(self._options.access, name="spark streaming", planning=True))
        return self._jetstream

    def _streams(self) -> dict[str, plan.Selected]:
        if self._selected is None:
            self._selected = plan.selected(self._connected(), self._options)
        return self._selected

    def _states(self) -> dict[str, StreamInfo]:
        found = {}
        for name in self._streams():
            info = self._connected().stream(name)
            if info is None:
                raise wrong("stream", name, "it is gone: make it again, or leave it out")
            found[name] = info
        return found

    def _former(self, name: str) -> plan.Selected:
        info = self._connected().stream(name)
        if info is None:
            raise wrong(
                "stream",
                name,
                "the checkpoint has a batch of it that is not finished, and it is gone: start with a new checkpoint",
            )
        return plan.Selected(info, self._options.subjects, plan.mode_of(info, self._options.mode))


def _opening(one: offsets.Range, opens: bool) -> offsets.Range:
    return offsets.Range(one.stream, one.created, one.start, one.end, opens)
