"""Written frames, as they lie in the stream afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from pyspark_jetstream.client import Access, BlockingApi, Connection
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_queries import until_started
from tests.support.spark.spark_streams import Streams


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
    assert count(streams, streams.name) == 2


def count(streams: Streams, stream: str) -> int:
    info = streams.jetstream.stream(stream)
    assert info is not None
    return info.messages


def test_a_task_that_fails_and_is_tried_again_stores_every_row_once(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()

    def failing(rows: Iterator[Row]) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        for number, row in enumerate(rows):
            if number == 10_000 and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt breaks")
            yield row

    frame = numbered(spark, 25_000).select("data").rdd.mapPartitions(failing).toDF("data string")
    write(frame, subject=f"{streams.root}.a")
    assert count(streams, stream) == 25_000


def test_workers_that_are_killed_in_mid_write_are_replaced_and_every_row_is_stored_once(
    spark: SparkSession, nats_server: NatsServer, streams: Streams
) -> None:
    stream, url = streams.make(), nats_server.url

    def killing(rows: Iterator[Row]) -> Iterator[Row]:
        context = TaskContext.get()
        assert context is not None
        is_first = context.attemptNumber() == 0 and context.partitionId() == 0
        for number, row in enumerate(rows):
            if number == 30_000 and is_first:
                kill_when_something_is_stored()
            yield row

    def kill_when_something_is_stored() -> None:
        with Connection(Access(url)) as connection:
            jetstream = BlockingApi(connection)
            while not getattr(jetstream.stream(stream), "messages", 0):
                pass
        # All workers, and with them the one that writes; the other task's, too.
        for process in psutil.Process(os.getppid()).children():
            process.kill()

    frame = numbered(spark, 100_000).select("data").rdd.mapPartitions(killing).toDF("data string")
    write(frame, subject=f"{streams.root}.a")
    assert count(streams, stream) == 100_000


def test_an_epoch_that_spark_repeats_after_a_crash_is_stored_once(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    source, sink = streams.make(), streams.make("sink")
    streams.fill(3000)

    def run(**options: str) -> None:
        frame = (
            spark.readStream.format("jetstream")
            .option("stream", source)
            .option("startingOffsets", "earliest")
            .option("maxMessagesPerTrigger", 2000)
            .load()
            # A shuffle, after which the rows of a partition come in any order.
            .repartition(2, "sequence")
        )
        query = (
            frame.writeStream.format("jetstream")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("subject", f"{streams.root}sink.copy")
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)

    until_started(run)
    assert count(streams, sink) == 3000
    # As if Spark had died after our commit, and before its own.
    for file in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        file.unlink()
    until_started(run)
    assert count(streams, sink) == 3000
    # Once more, beyond what the server remembers, with a marker that knows the epoch.
    streams.jetstream.call("STREAM.PURGE." + sink)
    streams.fill(500, start=3000)
    until_started(lambda: run(commitMarker="true"))
    assert count(streams, sink) == 500
    for file in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        file.unlink()
    streams.jetstream.call("STREAM.PURGE." + sink)
    until_started(lambda: run(commitMarker="true"))
    assert count(streams, sink) == 0


def test_a_batch_with_a_marker_that_is_complete_is_not_written_again(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    options = {"subject": f"{streams.root}.a", "commitMarker": "true", "runId": stream}
    write(numbered(spark, 100), **options)
    assert count(streams, stream) == 100
    streams.jetstream.call("STREAM.PURGE." + stream)
    write(numbered(spark, 100), **options)
    assert count(streams, stream) == 0


def test_faulty_rows_fail_the_job_with_their_place(spark: SparkSession, streams: Streams) -> None:
    streams.make()
    frame = spark.createDataFrame([("1", "/s", "t"), ("2", "", "t")], "id string, source string, type string")
    with pytest.raises(Exception, match=r"of partition \d+: id '2': source: is ''"):
        write(frame, subject=f"{streams.root}.a", cloudevents="true")


def test_a_stream_is_not_overwritten(spark: SparkSession, streams: Streams) -> None:
    with pytest.raises(Exception, match="use mode append"):
        numbered(spark, 1).write.format("jetstream").mode("overwrite").option("subject", "a").save()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "nothing says where to"),
        ({"subject": "no.stream.here"}, "no stream captures"),
        ({"subject": "a", "runid": "x", "acksWindow": "7"}, "did you mean ackWindow"),
    ],
)
def test_wrong_options_are_told_with_their_names(spark: SparkSession, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        write(numbered(spark, 1), **options)
