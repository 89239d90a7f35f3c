"""Writing frames: what lies in the stream afterwards."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.support.spark_streams import Streams


def numbered(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    number = f.col("id").cast("string")
    return spark.range(0, count, numPartitions=tasks).select(
        f.create_map(f.lit("n"), number, f.lit("kind"), f.lit("order")).alias("headers"),
        f.concat(f.lit("data "), number).alias("data"),
    )


def write(frame: DataFrame, **options: object) -> None:
    frame.write.format("jetstream").mode("append").options(**options).save()


def test_what_was_written_can_be_read_back_and_written_again(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    write(numbered(spark, 1000), subject=f"{streams.root}.a")
    read = spark.read.format("jetstream").option("stream", stream).load()
    assert read.count() == 1000
    copy = streams.make("copy")
    write(read, subject=f"{streams.root}copy.a")
    again = spark.read.format("jetstream").option("stream", copy).load()
    wanted = {(f"data {n}".encode(), str(n), "order") for n in range(1000)}
    for frame in (read, again):
        found = [(bytes(row.data), row.headers["n"], row.headers["kind"]) for row in frame.collect()]
        assert len(found) == 1000
        assert set(found) == wanted


def test_events_keep_every_attribute_on_the_way_to_a_channel_and_back(spark: SparkSession, streams: Streams) -> None:
    channel = f"{streams.root}/orders"
    streams.jetstream.call(
        f"STREAM.CREATE.{streams.name}", {"name": streams.name, "subjects": [f"{streams.root}.orders._knative"]}
    )
    time = datetime(2026, 1, 31, 9, 30, 0, 250_000, UTC)
    rows = [
        ("1", "/shop", "order.created", "größe 1", time, "application/json", {"partitionkey": "k 1"}, b'{"a":1}', 7),
        ("2", "/shop", "order.created", None, None, None, None, None, None),
    ]
    kinds = (
        "id string, source string, type string, subject string, time timestamp, datacontenttype string, "
        "extensions map<string,string>, data binary, priority int"
    )
    write(spark.createDataFrame(rows, kinds), channel=channel)
    read = spark.read.format("jetstream").option("channel", channel).option("cloudevents", "true").load()
    first, second = read.orderBy("id").collect()
    assert (first.id, first.source, first.type, first.subject) == ("1", "/shop", "order.created", "größe 1")
    assert first.extensions == {"partitionkey": "k 1", "priority": "7"}
    assert (bytes(first.data), first.datacontenttype) == (b'{"a":1}', "application/json")
    assert read.where(f.col("time") == f.lit(time)).count() == 1
    assert (second.id, second.subject, second.time, second.error) == ("2", None, None, None)
    # The same events once more: an event is itself, so the channel keeps them once.
    write(read, channel=channel)
    assert streams.count(streams.name) == 2


def test_a_task_that_fails_and_is_tried_again_stores_every_row_once(spark_retrying: SparkSession, streams: Streams): ...


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing says where to"),
        ({"subject": "no.stream.here"}, "no stream captures"),
        ({"channel": "a/b", "subject": "c"}, "give one of them"),
        ({"subject": "a.*"}, "without wildcards"),
        ({"subject": "a", "runid": "x", "acksWindow": "7"}, "did you mean ackWindow"),
        ({"subject": "a", "commitMarker": "true"}, "needs a runId"),
    ],
)
def test_wrong_options_are_told_with_their_names(spark: SparkSession, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        write(numbered(spark, 1), **options)
