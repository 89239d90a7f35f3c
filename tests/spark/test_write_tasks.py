"""A task, called as Spark calls it, on a real server: repeated, reordered, interrupted, with faulty rows."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyspark_jetstream.client import Access, BlockingApi, Connection
from pyspark_jetstream.client.pull import read_pulled
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.options import write_options
from pyspark_jetstream.writing.task import FaultyRow, PartitionReport, RowsOf, write
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_streams import Streams

PLACE = RowsOf("run", 3, 1)
BATCH = 500


class Rows:
    """Rows of one kind, handed over in batches; writes them to a server."""

    def __init__(self, server: NatsServer, columns: dict[str, str], **options: str) -> None:
        given = {name.lower(): value for name, value in options.items()}
        self.options = write_options({**given, "servers": server.url}, {}, streaming=False)
        self.parts = parts(columns.items(), self.options)
        kinds = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32()}
        kinds["map<string,string>"] = pa.map_(pa.string(), pa.string())
        self.schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])

    def batches(self, rows: list[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows), BATCH):
            columns = zip(*rows[at : at + BATCH], strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def write(self, rows: list[tuple[Any, ...]], place: RowsOf = PLACE) -> PartitionReport:
        return write(self.batches(rows), self.parts, self.options, place)


def stored(jetstream: BlockingApi, stream: str) -> list[bytes]:
    info = jetstream.stream(stream)
    assert info is not None
    return [data for chunk in read_pulled(jetstream, stream, 1, info.last + 1) for data in chunk.payloads]


def numbered(count: int) -> list[tuple[bytes]]:
    return [(b"%d" % number,) for number in range(count)]


@pytest.fixture
def messages(nats_server: NatsServer, streams: Streams) -> Rows:
    return Rows(nats_server, {"data": "binary"}, subject=f"{streams.root}.a")


FAST = [pytest.param(False, id="window"), pytest.param(True, id="fast ingest")]


@pytest.mark.parametrize("fast", FAST)
def test_a_repeated_task_stores_nothing_twice_in_whatever_order_its_rows_come(
    messages: Rows, streams: Streams, fast: bool
):
    stream = streams.make(allow_batched=fast)
    rows = [*numbered(2000), *[(b"equal",)] * 7]
    first = messages.write(rows)
    assert (first.rows, first.stored + first.duplicates, first.is_fast) == (2007, 2007, fast)
    random.Random(1).shuffle(rows)
    second = messages.write(rows)
    assert second.stored + second.duplicates == 2007
    assert sorted(stored(streams.jetstream, stream)) == sorted(data for (data,) in rows)


def test_another_partition_and_another_epoch_may_have_the_same_rows(messages: Rows, streams: Streams):
    stream = streams.make()
    for place in (RowsOf("run", 3, 1), RowsOf("run", 3, 2), RowsOf("run", 4, 1), RowsOf("other", 3, 1)):
        messages.write(numbered(10), place)
    assert len(stored(streams.jetstream, stream)) == 40


@pytest.mark.parametrize("fast", FAST)
def test_unacknowledged_messages_are_bounded(nats_server: NatsServer, streams: Streams, fast: bool):
    streams.make(allow_batched=fast)
    rows = Rows(nats_server, {"data": "binary"}, subject=f"{streams.root}.a", ackWindow="64")
    written = rows.write(numbered(3000))
    assert (written.stored + written.duplicates, written.is_fast) == (3000, fast)
    # On a busy machine one window may be sent twice; all of them are when acks are not understood.
    assert written.duplicates <= 64
    assert 32 < written.most_unacked <= 64


def test_rows_come_at_a_rate_also_when_the_first_ones_are_late(nats_server: NatsServer, streams: Streams):
    stream = streams.make()
    rows = Rows(nats_server, {"data": "binary"}, subject=f"{streams.root}.a", maxRowsPerSecond="50")

    def late() -> Iterator[pa.RecordBatch]:
        # Twice what the rows take: it must not be made up for.
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            pass
        yield from rows.batches(numbered(50))

    write(late(), rows.parts, rows.options, PLACE)
    state = streams.jetstream.call(f"STREAM.INFO.{stream}")["state"]
    first, last = (datetime.fromisoformat(state[which][:26] + "+00:00") for which in ("first_ts", "last_ts"))
    assert (last - first).total_seconds() > 0.8


@pytest.mark.parametrize("fast", FAST)
def test_large_messages_fill_a_window_by_their_bytes(messages: Rows, streams: Streams, fast: bool):
    stream = streams.make(allow_batched=fast)
    rows = [(b"%d" % number + b"x" * 1_000_000,) for number in range(40)]
    written = messages.write(rows)
    assert written.stored + written.duplicates == 40
    assert written.most_unacked <= 17
    assert len(stored(streams.jetstream, stream)) == 40


@pytest.mark.parametrize("fast", FAST)
def test_a_server_that_dies_and_comes_back_in_mid_write_has_every_row_once(tmp_path: Path, fast: bool):
    server = NatsServer(tmp_path).start()
    try:
        rows = Rows(server, {"data": "binary"}, subject="t.a", timeout="60", ackWindow="300")

        def interrupted() -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(rows.batches(numbered(6000))):
                yield batch
                if number in (3, 7):
                    server.kill()
                    server.start()

        with Connection(Access(server.url)) as connection:
            jetstream = BlockingApi(connection)
            jetstream.call(
                "STREAM.CREATE.T", {"name": "T", "subjects": ["t.>"], "storage": "file", "allow_batched": fast}
            )
            written = write(interrupted(), rows.parts, rows.options, PLACE)
            assert written.rows == 6000
            assert sorted(stored(jetstream, "T")) == sorted(data for (data,) in numbered(6000))
    finally:
        server.kill()


def forgotten(streams: Streams, subject: str) -> None:
    """Wait until the server has forgotten what was published before this call, by its own clock."""
    probe = {"Nats-Msg-Id": f"probe {random.random()}"}

    def publish() -> bool:
        answer = streams.jetstream.connection.request(subject, b"probe", headers=probe)
        return b'"duplicate"' in answer.data

    assert not publish()
    while publish():
        pass


class Broken(Exception):
    pass


def half(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Two batches and then a failure, as when the rest of a task's input can't be had."""
    yield next(batches)
    yield next(batches)
    raise Broken


@pytest.mark.parametrize(
    ("marker", "then"),
    [
        pytest.param("false", 2000 + 1000, id="ids alone hold for the window only"),
        pytest.param("true", 2000, id="with a marker it is stored once"),
    ],
)
def test_an_epoch_that_broke_and_is_repeated_beyond_the_window(
    nats_server: NatsServer, streams: Streams, marker: str, then: int
):
    stream = streams.make(duplicate_window=100_000_000)
    subject = f"{streams.root}.a"
    # All of the window is acknowledged when the next batch is asked for, so that it is known what is stored.
    rows = Rows(nats_server, {"data": "binary"}, subject=subject, runId=stream, commitMarker=marker, ackWindow="1")
    place = RowsOf(stream, 0, 0)
    with pytest.raises(Broken):
        write(half(rows.batches(numbered(2000))), rows.parts, rows.options, place)
    forgotten(streams, subject)
    rows.write(numbered(2000), place)
    found = [data for data in stored(streams.jetstream, stream) if data != b"probe"]
    assert len(found) == then
    assert set(found) == {data for (data,) in numbered(2000)}


def test_ids_of_a_column_are_known_again_beyond_the_window(nats_server: NatsServer, streams: Streams):
    stream = streams.make(duplicate_window=100_000_000)
    subject = f"{streams.root}.a"
    columns = {"data": "binary", "msg_id": "string"}
    rows = Rows(nats_server, columns, subject=subject, runId=stream, commitMarker="true", ackWindow="1")
    numbers = [(b"%d" % number, f"mine {number}") for number in range(2000)]
    place = RowsOf(stream, 0, 0)
    with pytest.raises(Broken):
        write(half(rows.batches(numbers)), rows.parts, rows.options, place)
    forgotten(streams, subject)
    rows.write(numbers, place)
    assert len([data for data in stored(streams.jetstream, stream) if data != b"probe"]) == 2000


EVENT = {"id": "string", "source": "string", "type": "string", "data": "binary"}


def test_a_faulty_row_fails_the_task_with_its_place_and_reason(nats_server: NatsServer, streams: Streams):
    streams.make()
    rows = Rows(nats_server, EVENT, subject=f"{streams.root}.a", cloudevents="true")
    with pytest.raises(FaultyRow, match=r"row 1 of partition 1: .*id: is missing.*onFaultyRow"):
        rows.write([("1", "/s", "t", b""), (None, "/s", "t", b"")])


def test_faulty_rows_are_skipped_and_counted_on_option(nats_server: NatsServer, streams: Streams):
    stream = streams.make(max_msg_size=1000)
    columns = {**EVENT, "extensions": "map<string,string>", "msg_id": "string", "error": "string"}
    rows = Rows(nats_server, columns, subject=f"{streams.root}.a", cloudevents="true", onFaultyRow="skip")
    written = rows.write(
        [
            ("1", "/s", "t", b"good", None, None, None),
            ("2", None, "t", b"", None, None, None),
            ("3", "/s", "t", b"", [("Bad_Name", "x")], None, None),
            ("4", "/s", "t", b"", [("id", "x")], None, None),
            ("5", "/s", "t", b"x" * 2000, None, None, None),
            ("6", "/s", "t", b"", None, "two\nlines", None),
            ("7", "/s", "t", b"", None, None, "no event"),
            ("8", "/s", "t", b"good", None, None, None),
        ]
    )
    assert (written.rows, written.stored + written.duplicates, written.skipped) == (8, 2, 6)
    assert stored(streams.jetstream, stream) == [b"good", b"good"]
    reasons = [
        "source: is missing",
        "'Bad_Name' is no attribute name",
        "'id', which is a column",
        "2119 bytes",
        "msg_id",
    ]
    assert len(written.faults) == 5
    for words, reason in zip(written.faults, reasons, strict=True):
        assert reason.replace("2119 bytes", "bytes: at most 1000") in words


def test_a_subject_that_no_stream_captures_is_the_fault_of_its_row(nats_server: NatsServer, streams: Streams):
    stream = streams.make()
    rows = Rows(nats_server, {"subject": "string", "data": "binary"}, onFaultyRow="skip")
    written = rows.write([(f"{streams.root}.a", b"1"), ("nowhere.at.all", b"2"), (f"{streams.root}.b", b"3")])
    assert (written.stored + written.duplicates, written.skipped) == (2, 1)
    assert "row 1 of partition 1: no stream captures the subject 'nowhere.at.all'" in written.faults[0]
    assert stored(streams.jetstream, stream) == [b"1", b"3"]


def test_control_headers_of_a_column_are_left_out_since_one_of_them_purges_the_stream(
    nats_server: NatsServer, streams: Streams
):
    stream = streams.make(allow_rollup_hdrs=True)
    rows = Rows(nats_server, {"headers": "map<string,string>", "data": "binary"}, subject=f"{streams.root}.a")
    control = [("Nats-Rollup", "all"), ("nats-msg-id", "same"), ("Headrace-Only", "other"), ("kept", "yes")]
    rows.write([(control, b"1"), (control, b"2")])
    info = streams.jetstream.stream(stream)
    assert info is not None
    [chunk] = read_pulled(streams.jetstream, stream, 1, info.last + 1)
    assert chunk.payloads == [b"1", b"2"]
    assert all(b"kept: yes" in block and b"other" not in block for block in chunk.blocks)


def test_a_column_msg_id_wins(nats_server: NatsServer, streams: Streams):
    stream = streams.make()
    streams.store([(f"{streams.root}.a", {"Nats-Msg-Id": "mine"}, b"before")])
    rows = Rows(nats_server, {"data": "binary", "msg_id": "string"}, subject=f"{streams.root}.a")
    written = rows.write([(b"1", "mine"), (b"2", "other"), (b"3", None)])
    assert (written.stored, written.duplicates) == (2, 1)
    assert stored(streams.jetstream, stream) == [b"before", b"2", b"3"]


def test_a_channel_takes_only_what_could_be_parked_again(nats_server: NatsServer, streams: Streams):
    streams.make(subjects=[f"{streams.root}.orders._knative"])
    rows = Rows(nats_server, EVENT, channel=f"{streams.root}/orders", onFaultyRow="skip")
    largest = 1024 * 1024 - 8 * 1024
    written = rows.write([("1", "/s", "t", b"x" * largest), ("2", "/s", "t", b"x" * (largest - 500))])
    assert (written.stored + written.duplicates, written.skipped) == (1, 1)
