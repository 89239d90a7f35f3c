"""Record batches of one part: the work of both readers in a task, on an executor."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_jetstream import task
from pyspark_jetstream.client import BlockingApi, Connection
from pyspark_jetstream.event_rows import event_batch
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.rows import record_batch, without_replays


def record_batches(part: task.TaskPart, options: ReadOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Connect, read to the proved end, and hang up, also when nobody wants the rest."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    stream = part.range.stream
    with Connection(options.access, name=f"spark {stream}") as connection:
        for chunk in task.fetch(BlockingApi(connection), part):
            messages = chunk if options.include_replays else without_replays(chunk)
            if not len(messages):
                continue
            if options.cloudevents:
                batch = event_batch(messages, stream, arrow, options.parse_mode)
            else:
                batch = record_batch(messages, stream, arrow)
            if batch.num_rows:
                yield batch
