"""The batch reader: plans on the driver, reads in tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_jetstream import offsets, plan, schema
from pyspark_jetstream.batches import record_batches
from pyspark_jetstream.client import BlockingApi, Connection
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.task import TaskPart


class BatchReader(DataSourceReader):
    """Spark pickles the reader to the executors before it plans, so it holds values only.

    Filters are not pushed down: PySpark 4.3 gives wrong rows when one DataFrame is scanned twice (docs/spark.md).
    """

    def __init__(self, options: ReadOptions, wanted: StructType) -> None:
        schema.checked(((field.name, field.dataType.simpleString()) for field in wanted), options)
        self._options = options
        self._schema = wanted

    def partitions(self) -> list[InputPartition]:
        """Called once per DataFrame, on the driver: all its scans see the streams as they are now."""
        options = self._options
        with Connection(options.access, name="spark planning", planning=True) as connection:
            jetstream = BlockingApi(connection)
            streams = plan.selected(jetstream, options)
            ranges = [plan.range_of(jetstream, one.info, options) for one in streams.values()]
        cut = offsets.partitions([one for one in ranges if len(one)], options.max_per_partition, options.min_partitions)
        return [InputPartition(part(one, streams[one.stream], options)) for one in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a task, and again from the beginning if the task is tried again."""
        # Spark makes a partition without a value when there is nothing to read.
        if partition.value is not None:
            yield from record_batches(partition.value, self._options, self._schema)


def part(one: offsets.Range, selected: plan.Selected, options: ReadOptions) -> TaskPart:
    return TaskPart(one, selected.filters, selected.mode, one.opens, options.fail_on_data_loss)
