"""Spark asks for the initial offset, and later for the latest one: what is published in between is not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from pyspark_jetstream import JetStreamDataSource
from pyspark_jetstream.client import BlockingApi, Connection, Outgoing, Publisher
from pyspark_jetstream.stream_reader import StreamReader
from tests.support.spark.spark_queries import Query
from tests.support.spark.spark_streams import Streams

BETWEEN = 50


def busy_source(subject: str) -> type[JetStreamDataSource]:
    """The source, with producers that publish right after each initial offset. A class in a function is pickled whole,
    so that Spark's workers get it."""

    class BusyReader(StreamReader):
        def initialOffset(self) -> dict[str, Any]:
            offset = super().initialOffset()
            with Connection(self._options.access) as connection:
                publisher = Publisher(connection)
                for _ in range(BETWEEN):
                    publisher.send(Outgoing(subject, b"", b"between"))
                publisher.finish()
            return offset

    class BusySource(JetStreamDataSource):
        @classmethod
        def name(cls) -> str:
            return "busy_jetstream"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return BusyReader(self._read_options(streaming=True), schema)

    return BusySource


def test_what_is_published_between_two_askings_is_read(
    spark: SparkSession, jetstream: BlockingApi, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make()
    streams.fill(100)
    spark.dataSource.register(busy_source(f"{streams.root}.a"))
    query = Query(spark, tmp_path, source="busy_jetstream", stream=stream, startingOffsets="latest")
    query.run()
    query.run()
    state = jetstream.stream(stream)
    assert state is not None
    assert state.last >= 100 + BETWEEN
    # From where the first batch says that the query began, to what there was when it ended: no gap, nothing twice.
    assert query.numbers == list(range(query.numbers[0], query.numbers[-1] + 1))
    assert query.numbers[0] in range(101, state.last + 1, BETWEEN)
    assert query.numbers[-1] == state.last
