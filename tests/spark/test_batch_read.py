"""Reading streams as a batch."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_queries import batch, sequences
from tests.support.spark.spark_streams import Streams


def test_every_message_is_a_row(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(1000)
    rows = batch(spark, stream).orderBy("sequence").collect()
    assert len(rows) == 1000
    assert rows[7].asDict() == {
        "stream": stream,
        "subject": f"{streams.root}.s7",
        "sequence": 8,
        "timestamp": rows[7].timestamp,
        "headers": {"n": "7", "kind": "order"},
        "data": b"7 " + b"x" * 50,
    }


def test_sql_gives_what_a_plain_read_of_the_same_stream_gives(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(5000)
    options = f"stream '{stream}', minPartitions '3', maxMessagesPerPartition '1200'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING jetstream OPTIONS ({options})")
    found = spark.sql(
        "SELECT subject, count(*) AS n, sum(sequence) AS total, min(CAST(headers['n'] AS INT)) AS least, "
        "max(length(data)) AS longest FROM v WHERE sequence % 3 = 0 GROUP BY subject ORDER BY subject"
    ).collect()
    plain: dict[str, list[tuple[int, int, int]]] = {}
    for sequence in range(3, 5001, 3):
        answer = streams.jetstream.message_after(stream, sequence)
        assert answer is not None
        n = sequence - 1
        plain.setdefault(answer["subject"], []).append((answer["seq"], n, len(b"%d " % n) + 50))
    assert [tuple(row) for row in found] == [
        (subject, len(some), sum(s for s, _, _ in some), min(n for _, n, _ in some), max(size for *_, size in some))
        for subject, some in sorted(plain.items())
    ]


@pytest.mark.parametrize("mode", ["pull", "direct"])
def test_filters_and_bounds_choose_messages(spark: SparkSession, streams: Streams, mode: str) -> None:
    stream = streams.make()
    streams.fill(100)
    root = streams.root
    assert sequences(batch(spark, stream, mode=mode, startingSequence=11, endingSequence=20)) == list(range(11, 21))
    by_stream = {"startingOffsets": json.dumps({stream: 91}), "endingOffsets": json.dumps({stream: 95})}
    assert sequences(batch(spark, stream, mode=mode, **by_stream)) == [91, 92, 93, 94]
    assert sequences(batch(spark, stream, mode=mode, subject=f"{root}.s3")) == list(range(4, 101, 10))
    two = batch(spark, stream, mode=mode, subject=f"{root}.s3,{root}.s4", minPartitions=4)
    assert sequences(two) == sorted([*range(4, 101, 10), *range(5, 101, 10)])
    assert sequences(batch(spark, stream, mode=mode, subject=f"{root}.*", endingSequence=3)) == [1, 2, 3]
    assert sequences(batch(spark, stream, mode=mode, startingSequence=101)) == []
    assert sequences(batch(spark, stream, mode=mode, subject=f"{root}.nobody")) == []


def test_times_choose_messages(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(50)
    streams.jetstream.call(f"STREAM.MSG.DELETE.{stream}", {"seq": 20})
    at = {row[0]: row[1] for row in batch(spark, stream).select("sequence", "timestamp").collect()}
    # To the microsecond, of which one may hold several messages.
    start, end = at[12], at[40]
    expected = [sequence for sequence, time in at.items() if start <= time < end]
    found = batch(spark, stream, startingTimestamp=f"{start.isoformat()}Z", endingTimestamp=f"{end.isoformat()}Z")
    # What was stored in the very microsecond of the start may have been stored a fraction before it.
    assert sequences(found) == sorted(expected)


def test_a_schema_chooses_columns_and_their_order(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(10)
    frame = batch(spark, stream, "data binary, sequence long")
    assert frame.columns == ["data", "sequence"]
    assert sorted(row[1] for row in frame.collect()) == list(range(1, 11))
    assert "headers" not in batch(spark, stream, includeHeaders=False).columns


@pytest.mark.parametrize(
    ("schema", "words"),
    [("sequence int", "it is a bigint"), ("body binary", "has a column 'body'"), ("id string", "without cloudevents")],
)
def test_a_schema_that_can_t_be_had_is_refused(spark: SparkSession, streams: Streams, schema: str, words: str) -> None:
    stream = streams.make()
    with pytest.raises(PySparkException, match=words):
        batch(spark, stream, schema).collect()


def test_wrong_options_fail_before_anything_runs(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        batch(spark, "EV", startingofset="earliest").schema  # noqa: B018  # Spark asks for it here
    with pytest.raises(PySparkException, match="'NOBODY': NATS has no such stream"):
        batch(spark, "NOBODY").collect()


def test_what_could_only_read_nothing_is_refused(spark: SparkSession, streams: Streams) -> None:
    stream, other = streams.make(), streams.make("B")
    streams.fill(5)
    root = streams.root
    with pytest.raises(PySparkException, match=f"'nobody.>': no message has such a subject.*{stream} captures {root}"):
        batch(spark, stream, subject="nobody.>").collect()
    both = batch(spark, stream, streams=other, subject=f"{root}b.x,{root}.s1")
    assert sequences(both) == [2]
    # Subjects of before: what is there is read, whatever the stream captures now.
    streams.jetstream.call(
        f"STREAM.UPDATE.{stream}",
        {"name": stream, "subjects": [f"{root}.new"], "storage": "memory", "allow_direct": True},
    )
    assert sequences(batch(spark, stream, subject=f"{root}.s1")) == [2]
    for options in ({"startingSequence": 7}, {"startingOffsets": json.dumps({stream: 99999999})}):
        with pytest.raises(PySparkException, match="which ends at 5: start there or before"):
            batch(spark, stream, **options).collect()
    assert sequences(batch(spark, stream, startingSequence=6)) == []
    with pytest.raises(PySparkException, match="has the column 'sequence' twice"):
        batch(spark, stream, "sequence long, sequence long").collect()


def test_gaps_are_no_loss(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(100)
    for sequence in (1, 2, 50, 51, 100):
        streams.jetstream.call(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})
    assert sequences(batch(spark, stream, minPartitions=4)) == [*range(3, 50), *range(52, 100)]
    streams.jetstream.call(f"STREAM.PURGE.{stream}")
    assert sequences(batch(spark, stream)) == []


def test_a_start_that_is_gone_fails_the_query_or_is_passed_over(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make(max_msgs=60)
    streams.fill(100)
    with pytest.raises(PySparkException, match=f"messages 10 to 40 of stream {stream} are gone"):
        batch(spark, stream, startingSequence=10).collect()
    lenient = batch(spark, stream, startingSequence=10, failOnDataLoss=False)
    assert sequences(lenient) == list(range(41, 101))
    # Earliest is whatever is first.
    assert sequences(batch(spark, stream)) == list(range(41, 101))


def test_what_was_purged_between_planning_and_reading_is_no_empty_partition(
    spark: SparkSession, streams: Streams
) -> None:
    stream = streams.make()
    streams.fill(100)
    frame = batch(spark, stream, startingSequence=1)
    lenient = batch(spark, stream, startingSequence=1, failOnDataLoss=False)
    # A DataFrame is planned once: what comes later finds the partitions of now.
    assert len(frame.collect()) == len(lenient.collect()) == 100
    streams.jetstream.call(f"STREAM.PURGE.{stream}", {"seq": 51})
    with pytest.raises(PySparkException, match=r"messages 1 to 50 .* are gone"):
        frame.collect()
    assert sorted(row.sequence for row in lenient.collect()) == list(range(51, 101))


def test_a_stream_that_was_made_again_since_planning_fails_the_read(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(100)
    frame = batch(spark, stream)
    assert len(frame.collect()) == 100
    streams.delete(stream)
    streams.make()
    streams.fill(200)
    with pytest.raises(PySparkException, match="was made again"):
        frame.collect()


def test_a_queue_is_read_without_taking_part(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make(retention="workqueue")
    streams.fill(50)
    assert len(sequences(batch(spark, stream))) == 50
    found = streams.jetstream.stream(stream)
    assert found is not None
    assert found.messages == 50
    with pytest.raises(PySparkException, match="use direct"):
        batch(spark, stream, mode="pull").collect()
    closed = streams.make("CLOSED", retention="interest", allow_direct=False)
    with pytest.raises(PySparkException, match="set allow_direct"):
        batch(spark, closed).collect()


def test_several_streams_and_channels_in_one_read(spark: SparkSession, streams: Streams) -> None:
    other = streams.make("B")
    streams.fill(20, suffix="B")
    stream = streams.make()
    streams.fill(30)
    found = spark.read.format("jetstream").option("streams", f"{stream},{other}").load()
    counts = {row[0]: row[1] for row in found.groupBy("stream").count().collect()}
    assert counts == {stream: 30, other: 20}


def test_a_channel_is_found_by_its_subject(spark: SparkSession, streams: Streams) -> None:
    namespace = streams.root
    own, adopted = f"KN_{streams.name}__ORDERS", f"ADOPTED_{streams.name}"
    for name, subjects in (
        (own, [f"{namespace}.orders._knative", f"{namespace}.more.>"]),
        (adopted, [f"{namespace}.audit._knative", f"{namespace}.private.>"]),
    ):
        streams.jetstream.call(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "memory"})
    streams.store(
        (f"{namespace}.{where}", {}, where.encode())
        for where in ("orders._knative", "more.x", "audit._knative", "private.y")
    )

    def data(channel: str) -> list[bytes]:
        frame = spark.read.format("jetstream").option("channel", f"{namespace}/{channel}").load()
        return sorted(bytes(row.data) for row in frame.collect())

    # Of our own stream also what additional subjects bring; of somebody else's only what is the channel's.
    assert data("orders") == [b"more.x", b"orders._knative"]
    assert data("audit") == [b"audit._knative"]
    with pytest.raises(PySparkException, match="no stream captures its subject"):
        data("nobody")


def test_a_channel_in_an_adopted_stream_is_read_where_that_puts_its_subject(
    spark: SparkSession, streams: Streams
) -> None:
    namespace = streams.root
    for name, destination in (("moved", "v1.>"), ("hashed", "q.{{partition(3,1)}}")):
        config = {"name": f"{name}_{streams.name}", "subjects": [f"{namespace}.{name}._knative", f"{name}.{namespace}"]}
        source = ">" if name == "moved" else "*.*.*"
        moved = {**config, "subject_transform": {"src": source, "dest": destination}, "storage": "memory"}
        streams.jetstream.call(f"STREAM.CREATE.{config['name']}", moved)
    streams.store([(f"{namespace}.moved._knative", {}, b"ours"), (f"moved.{namespace}", {}, b"theirs")])

    reader = spark.read.format("jetstream")
    rows = reader.option("channel", f"{namespace}/moved").load().collect()
    assert [bytes(row.data) for row in rows] == [b"ours"]
    with pytest.raises(PySparkException, match="where no filter can follow, by its subject_transform"):
        spark.read.format("jetstream").option("channel", f"{namespace}/hashed").load().collect()


def test_replays_to_one_subscriber_are_left_out(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    subject = f"{streams.root}.a"
    streams.store(
        [(subject, {"a": "1"}, b""), (subject, {"a": "1", "Headrace-Only": "KN_SUB_1"}, b""), (subject, {}, b"")]
    )
    assert sequences(batch(spark, stream)) == [1, 3]
    assert sequences(batch(spark, stream, "sequence long")) == [1, 3]
    assert sequences(batch(spark, stream, includeReplays=True)) == [1, 2, 3]


def test_messages_of_any_size_and_any_headers(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    subject = f"{streams.root}.a"
    sizes = [0, 1, 1000, 900_000, 10, 1_000_000] * 3
    streams.store((subject, {"size": str(size), "note": "ä: b"} if size else {}, b"z" * size) for size in sizes)
    rows = batch(spark, stream).orderBy("sequence").collect()
    assert [len(row.data) for row in rows] == sizes
    assert [row.headers for row in rows] == [{"size": str(size), "note": "ä: b"} if size else {} for size in sizes]


def test_no_consumer_stays_behind(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(30_000)
    assert batch(spark, stream, minPartitions=3).count() == 30_000
    assert len(batch(spark, stream, minPartitions=3).limit(5).collect()) == 5
    assert streams.jetstream.call(f"CONSUMER.NAMES.{stream}")["consumers"] in (None, [])


def test_plans_show_no_secret(spark: SparkSession, streams: Streams, nats_server: NatsServer) -> None:
    stream = streams.make()
    frame = batch(spark, stream, servers=nats_server.url, user="joe", passwordEnv="PATH")
    plan = frame._jdf.queryExecution().toString()
    assert "passwordEnv" not in plan or "/bin" not in plan
    assert frame.count() == 0


def test_events_are_rows_of_their_attributes(spark: SparkSession, streams: Streams) -> None:
    stream = streams.make()
    event = {"ce-specversion": "1.0", "ce-source": "/shop", "ce-type": "order", "ce-time": "2026-01-31T09:30:00.5Z"}
    streams.store(
        [
            *((f"{streams.root}.a", {**event, "ce-id": str(n), "ce-shard": str(n % 2)}, b"{}") for n in range(20)),
            (f"{streams.root}.a", {"ce-specversion": "1.0"}, b"?"),
        ]
    )
    frame = batch(spark, stream, cloudevents=True)
    frame.createOrReplaceTempView("events")
    counts = spark.sql(
        "SELECT type, extensions['shard'] AS shard, count(*) AS n, max(time) AS at FROM events "
        "WHERE error IS NULL GROUP BY ALL ORDER BY shard"
    ).collect()
    assert [(row.type, row.shard, row.n, row.at.isoformat()) for row in counts] == [
        ("order", "0", 10, "2026-01-31T09:30:00.500000"),
        ("order", "1", 10, "2026-01-31T09:30:00.500000"),
    ]
    assert frame.where("error IS NOT NULL").count() == 1
    with pytest.raises(PySparkException, match=f"message 21 of stream {stream}"):
        batch(spark, stream, cloudevents=True, parseMode="FAILFAST").collect()
