"""Streaming queries: offsets, limits, restarts, and streams that are not what they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.spark.spark_queries import Query
from tests.support.spark.spark_streams import Streams


def test_a_restart_goes_on_behind_what_is_committed(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    stream = streams.make()
    streams.fill(500)
    query = Query(spark, tmp_path, stream=stream)
    query.run()
    streams.fill(300, start=500)
    query.run()
    assert query.numbers == list(range(1, 801))


def test_a_batch_has_no_more_messages_than_the_trigger_allows(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make()
    streams.fill(1000)
    query = Query(spark, tmp_path, stream=stream)
    batches = query.run(maxMessagesPerTrigger=400)
    assert [one["numInputRows"] for one in batches] == [400, 400, 200]
    streams.fill(100, start=1000)
    # Some 90 bytes each, as the server counts them.
    sizes = [one["numInputRows"] for one in query.run(maxBytesPerTrigger=4000)]
    assert max(sizes) <= 50
    assert query.numbers == list(range(1, 1101))


def test_several_streams_share_a_query(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    stream, other = streams.make(), streams.make("B")
    streams.fill(300)
    streams.fill(100, suffix="B")
    query = Query(spark, tmp_path, streams=f"{stream},{other}", maxMessagesPerTrigger=200)
    assert [one["numInputRows"] for one in query.run()] == [200, 200]
    third = streams.make("C")
    streams.fill(10, suffix="C")
    query.run(streams=f"{stream},{other},{third}")
    expected = [*((stream, n) for n in range(1, 301)), *((other, n) for n in range(1, 101))]
    assert query.written() == sorted([*expected, *((third, n) for n in range(1, 11))])


def test_a_stream_that_is_left_out_and_read_again_goes_on_where_it_was(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream, other = streams.make(), streams.make("B")
    streams.fill(100)
    streams.fill(100, suffix="B")
    query = Query(spark, tmp_path, streams=f"{stream},{other}")
    query.run()
    streams.fill(50, start=100, suffix="B")
    with pytest.raises(PySparkException, match=f"streams that this query does not read \\({other} at 101"):
        query.run(streams=stream)
    streams.fill(10, start=100)
    query.run(streams=stream, failOnDataLoss=False)
    query.run()
    expected = [*((stream, n) for n in range(1, 111)), *((other, n) for n in range(1, 151))]
    assert query.written() == sorted(expected)


def test_a_stream_that_is_added_starts_where_the_options_say(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream, other = streams.make(), streams.make("B")
    streams.fill(20)
    streams.fill(20, suffix="B")
    query = Query(spark, tmp_path, stream=stream)
    query.run()
    # Nothing is to be read, but where it starts is noted.
    query.run(streams=other, startingOffsets="latest")
    streams.fill(5, start=20, suffix="B")
    query.run(streams=other, startingOffsets="latest")
    assert query.written() == sorted([*((stream, n) for n in range(1, 21)), *((other, n) for n in range(21, 26))])


def test_a_stream_that_was_made_again_ends_the_query_or_starts_over(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make()
    streams.fill(100)
    query = Query(spark, tmp_path, stream=stream)
    query.run()
    streams.delete(stream)
    streams.make()
    # It has grown beyond where the query stands: only its birth tells that it is another.
    streams.fill(150)
    with pytest.raises(PySparkException, match="was deleted and made again"):
        query.run()
    query.run(onStreamRecreated="startOver")
    assert query.numbers == sorted([*range(1, 101), *range(1, 151)])


def test_what_was_discarded_unread_ends_the_query_or_is_passed_over(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make()
    streams.fill(100)
    query = Query(spark, tmp_path, stream=stream)
    query.run()
    streams.fill(100, start=100)
    streams.jetstream.call(f"STREAM.PURGE.{stream}", {"seq": 151})
    with pytest.raises(PySparkException, match=r"messages 101 to 150 .* are gone"):
        query.run()
    query.run(failOnDataLoss=False)
    assert query.numbers == [*range(1, 101), *range(151, 201)]


def test_a_query_that_starts_with_what_is_to_come_misses_nothing_of_it(
    spark: SparkSession, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make()
    streams.fill(100)
    query = Query(spark, tmp_path, stream=stream, startingOffsets="latest")
    query.run()
    streams.fill(50, start=100)
    query.run()
    assert query.numbers == list(range(101, 151))


def test_filters_hold_in_a_streaming_query(spark: SparkSession, streams: Streams, tmp_path: Path) -> None:
    stream = streams.make()
    streams.fill(100)
    query = Query(spark, tmp_path, stream=stream, subject=f"{streams.root}.s3", maxMessagesPerTrigger=30)
    query.run()
    assert query.numbers == list(range(4, 101, 10))
