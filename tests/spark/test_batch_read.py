"""Reading a stream as a batch."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.support.spark_streams import Streams


def test_every_message_is_a_row(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(1000)
    frame = spark.read.format("jetstream").option("stream", stream).load()
    rows = frame.orderBy("sequence").collect()
    assert len(rows) == 1000
    assert rows[7].asDict() == {
        "stream": stream,
        "subject": f"{streams.root}.s7",
        "sequence": 8,
        "timestamp": rows[7].timestamp,
        "headers": {"n": "7", "kind": "order"},
        "data": b"7 " + b"x" * 50,
    }
