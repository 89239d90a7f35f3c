"""The driver's deeds upon the words of its tasks."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.core.errors import Misconfigured, Refused
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.marker import Markers
from pyspark_jetstream.writing.options import WriteOptions, write_options
from pyspark_jetstream.writing.task import PartitionReport, RowsOf, write
from pyspark_jetstream.writing.writers import BatchWriter, Committed, StreamWriter
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_streams import Streams

SCHEMA = StructType([StructField("data", BinaryType())])


def options_of(server: NatsServer, **given: str) -> WriteOptions:
    return write_options({"servers": server.url, "subject": "a.b", **given}, {}, streaming="runid" not in given)


def test_the_counts_of_all_tasks_and_the_first_faults_are_logged(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    writer = BatchWriter(options_of(nats_server, runid="r"), SCHEMA, overwrite=False)
    place = RowsOf("r", 0, 0)
    one = PartitionReport(place, rows=7, stored=5, duplicates=1, skipped=1, faults=["row 3 of partition 0: too large"])
    with caplog.at_level(logging.INFO, "pyspark_jetstream"):
        writer.commit([Committed(one), None, Committed(PartitionReport(place, rows=2, known=2))])
    words = "9 rows in 2 tasks: 5 stored, 1 there already, 2 not sent again, 1 faulty; row 3 of partition 0: too large"
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", words)]


def test_a_failed_write_says_that_a_part_may_be_stored_and_how_to_repeat_it(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    batch = BatchWriter(options_of(nats_server, runid="r7"), SCHEMA, overwrite=False)
    batch.abort([None, None])
    batch.abort([Committed(PartitionReport(RowsOf("r7", 0, 1), rows=2, stored=2)), None])
    StreamWriter(options_of(nats_server, commitmarker="true"), SCHEMA, overwrite=False).abort([None], 3)
    told, with_counts, of_a_query = caplog.messages
    assert told == (
        "not all of the rows could be written: an unknown part may be stored. What is stored is not stored twice when "
        "they are written again with runId r7, as long as the stream remembers message ids"
    )
    assert "an unknown part may be stored; of the tasks that ended: 2 rows in 1 task: 2 stored" in with_counts
    assert "batch 3 could be written" in of_a_query
    assert of_a_query.endswith("the query is started again on its checkpoint")


def test_what_became_of_the_rows_is_added_to_a_file_of_the_driver(
    nats_server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "summary"
    writer = StreamWriter(options_of(nats_server, summaryfile=str(file)), SCHEMA, overwrite=False)
    for epoch in (4, 5):
        place = RowsOf("q", epoch, 0)
        writer.commit([Committed(PartitionReport(place, stream="S", rows=7, stored=5, duplicates=1, skipped=1))], epoch)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["batch"] for line in lines] == [4, 5]
    assert lines[0] == {
        "run": "q",
        "batch": 4,
        "stream": "S",
        "rows": 7,
        "stored": 5,
        "alreadyThere": 1,
        "notSentAgain": 0,
        "faulty": 1,
        "wasComplete": False,
        "faults": [],
    }
    # All is stored by then: what is left to do is to say so.
    file.unlink()
    file.mkdir()
    writer.commit([Committed(PartitionReport(RowsOf("q", 6, 0), rows=1, stored=1))], 6)
    assert '"batch": 6' in caplog.messages[-1]
    with pytest.raises(Misconfigured, match="summaryFile is '/not/there/x': there is no such folder"):
        StreamWriter(options_of(nats_server, summaryfile="/not/there/x"), SCHEMA, overwrite=False)


@pytest.mark.parametrize(("epoch", "warns"), [(0, True), (1, False), (100, True)])
def test_a_target_that_forgets_too_soon_is_warned_of_now_and_then(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture, epoch: int, warns: bool
) -> None:
    writer = StreamWriter(options_of(nats_server), SCHEMA, overwrite=False)
    messages = [
        Committed(PartitionReport(RowsOf("q", epoch, at), stream="ORDERS", window_seconds=5.0)) for at in range(2)
    ]
    writer.commit(list(messages), epoch)
    assert sum("stream ORDERS remembers message ids for 5 s only" in one for one in caplog.messages) == int(warns)


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        pytest.param([b"3", b"1", b"2", b"2"], False, id="the same in another order and other tasks"),
        pytest.param([b"1", b"2", b"2", b"4"], True, id="as many others"),
        pytest.param([b"1", b"2", b"3", b"3"], True, id="others of them twice"),
        pytest.param([b"1"], True, id="fewer"),
    ],
)
def test_a_named_run_that_is_complete_takes_no_other_rows(
    nats_server: NatsServer, streams: Streams, rows: list[bytes], refused: bool
) -> None:
    stream = streams.make()
    given = options_of(nats_server, runid=stream, commitmarker="true", subject=f"{streams.root}.a")
    writer = BatchWriter(given, SCHEMA, overwrite=False)

    def task(partition: int, of: list[bytes]) -> Committed:
        batch = pa.RecordBatch.from_arrays([pa.array(of, pa.binary())], ["data"])
        return Committed(write([batch], parts([("data", "binary")], given), given, RowsOf(stream, 0, partition)))

    writer.commit([task(0, [b"1", b"2"]), task(1, [b"2", b"3"])])
    again = [task(at, rows[at::3]) for at in range(3) if rows[at::3]]
    if refused:
        with pytest.raises(Refused, match=f"run {stream} was complete before, with 4 rows"):
            writer.commit(list(again))
    else:
        writer.commit(list(again))
    assert all(one.report.is_passed and not one.report.stored for one in again)
    info = streams.jetstream.stream(stream)
    assert info is not None
    assert info.messages == 4


def test_an_epoch_without_its_marker_is_not_completed(nats_server: NatsServer, streams: Streams) -> None:
    stream = streams.make()
    given = options_of(nats_server, runid=stream, commitmarker="true", subject=f"{streams.root}.a")
    writer = BatchWriter(given, SCHEMA, overwrite=False)
    Markers(streams.jetstream, given.marker_stream).ensure(replicas=1)
    with pytest.raises(Refused, match="is not at epoch 0"):
        writer.commit([Committed(PartitionReport(RowsOf(stream, 0, 0), stream=stream, rows=1))])
