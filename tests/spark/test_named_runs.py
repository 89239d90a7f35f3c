"""A named run that broke off and is repeated with other rows: found out before any of them is stored, or at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from headrace.core.errors import Refused
from pyspark_jetstream.client import read_pulled
from pyspark_jetstream.writing import ledger, task
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.marker import Batch, Markers
from pyspark_jetstream.writing.options import MARKER_STREAM, write_options
from pyspark_jetstream.writing.task import PartitionReport, RowsOf, write
from pyspark_jetstream.writing.writers import BatchWriter, Committed, look
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_streams import Streams

BATCH = 10
Rows = Sequence[Sequence[bytes]]
_tries = count()


class BrokeOff(Exception):
    """As when the rest of a task's rows can't be had."""


class Run:
    """One run with a name on one stream; each of its tries is what a job would do."""

    def __init__(
        self, server: NatsServer, streams: Streams, *, own_ids: bool = False, fast: bool = False, **options: str
    ) -> None:
        self.streams = streams
        self.stream = streams.make(allow_batched=fast)
        self._own_ids = own_ids
        given = {"subject": f"{streams.root}.a", "runId": self.stream, "commitMarker": "true", "ackWindow": "1"}
        given |= {"servers": server.url, **options}
        self.options = write_options({name.lower(): value for name, value in given.items()}, {}, streaming=False)
        fields = [StructField("data", BinaryType()), *([StructField("msg_id", StringType())] if own_ids else [])]
        self._schema = StructType(fields)
        self._parts = parts([(one.name, one.dataType.simpleString()) for one in fields], self.options)

    def job(self, rows: Rows, *, breaks_after: int | None = None) -> None:
        """All of a job: each element of `rows` is a task's.

        Args:
            breaks_after: rows of the last task, when the job is to break off there.
        """
        writer = BatchWriter(self.options, self._schema, overwrite=False)
        look(self.options, writer.batch.columns)
        done = []
        for partition, mine in enumerate(rows):
            stops = breaks_after if partition == len(rows) - 1 else None
            done.append(Committed(self.task(partition, mine, writer.batch, stops)))
        writer.commit(list(done))

    def task(
        self, partition: int, rows: Sequence[bytes], batch: Batch, breaks_after: int | None = None
    ) -> PartitionReport:
        place = RowsOf(self.options.run, 0, partition, batch)
        return write(self._batches(rows, breaks_after), self._parts, self.options, place)

    def _batches(self, rows: Sequence[bytes], breaks_after: int | None) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(rows), BATCH):
            if breaks_after is not None and at >= breaks_after:
                raise BrokeOff
            data = rows[at : at + BATCH]
            columns = [pa.array(data, pa.binary())]
            if self._own_ids:
                columns.append(pa.array([f"mine {self.stream} {one.decode()}" for one in data], pa.string()))
            yield pa.RecordBatch.from_arrays(columns, names=[field.name for field in self._schema])

    def stored(self) -> list[int]:
        """The numbers that are in the stream, in order: one twice would come twice."""
        jetstream = self.streams.jetstream
        info = jetstream.stream(self.stream)
        assert info is not None
        chunks = read_pulled(jetstream, self.stream, 1, info.last + 1)
        return sorted(int(data) for chunk in chunks for data in chunk.payloads)

    def noted(self) -> int:
        """Chunks of digests that lie beside the run's marker."""
        jetstream = self.streams.jetstream
        found = Markers(jetstream, MARKER_STREAM).find(self.options.run, self.stream)
        assert found is not None
        marker = jetstream.call(f"STREAM.MSG.GET.{MARKER_STREAM}", {"seq": found.sequence})["message"]["subject"]
        info = jetstream.call(f"STREAM.INFO.{MARKER_STREAM}", {"subjects_filter": f"{marker}.>"})
        return len(info["state"].get("subjects") or ())


def numbers(of: Iterable[int]) -> list[bytes]:
    return [b"%d" % number for number in of]


FIRST = [numbers(range(100)), numbers(range(100, 200))]


@pytest.fixture
def run(nats_server: NatsServer, streams: Streams) -> Run:
    return Run(nats_server, streams)


def broken_off(run: Run) -> None:
    """The first try: all of the first task, and 30 rows of the second."""
    with pytest.raises(BrokeOff):
        run.job(FIRST, breaks_after=30)
    assert run.stored() == list(range(130))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        pytest.param([numbers(range(50, 150)), FIRST[1]], "of 100 rows that partition 0 had", id="others"),
        pytest.param([numbers(range(99)), FIRST[1]], "1 is not among", id="one is missing"),
        pytest.param([FIRST[1], FIRST[0]], "100 are not among", id="spread over the tasks in another way"),
        pytest.param([[], FIRST[1]], "100 are not among", id="none in a task that had some"),
    ],
)
def test_other_rows_are_refused_before_one_of_their_partition_is_stored(run: Run, rows: Rows, words: str) -> None:
    broken_off(run)
    with pytest.raises(Refused, match=f"run {run.stream} was begun with other rows: .*{words}"):
        run.job(rows)
    assert run.stored() == list(range(130))
    assert run.noted()
    # What was refused has spoilt nothing.
    run.job(FIRST)
    assert run.stored() == list(range(200))
    assert not run.noted()


@pytest.mark.parametrize("fast", [False, True], ids=["window", "fast ingest"])
def test_the_same_rows_in_any_order_and_more_of_them_are_written(
    nats_server: NatsServer, streams: Streams, fast: bool
) -> None:
    run = Run(nats_server, streams, fast=fast)
    broken_off(run)
    run.job([FIRST[0][::-1], [*FIRST[1][::-1], *numbers(range(200, 210))]])
    assert run.stored() == list(range(210))


def test_a_task_that_is_tried_again_in_one_job_is_not_held_against_itself(run: Run) -> None:
    """As before: rows that change between two attempts are other rows, and none is lost."""
    batch = Batch("a")
    with pytest.raises(BrokeOff):
        run.task(0, FIRST[0], batch, breaks_after=30)
    run.task(0, FIRST[1], batch)
    assert run.stored() == [*range(30), *range(100, 200)]


def test_fewer_tasks_are_found_out_at_the_end(run: Run) -> None:
    broken_off(run)
    with pytest.raises(Refused, match=r"of 130 rows that it had when it broke off, 30 are not among those of now"):
        run.job([FIRST[0]])


@pytest.mark.parametrize(
    "spread", [FIRST, [FIRST[1], FIRST[0]], [[*FIRST[0], *FIRST[1]]]], ids=["same", "other", "one"]
)
def test_rows_with_ids_of_their_own_may_be_in_other_tasks(
    nats_server: NatsServer, streams: Streams, spread: Rows
) -> None:
    run = Run(nats_server, streams, own_ids=True)
    broken_off(run)
    run.job(spread)
    assert run.stored() == list(range(200))


def test_other_rows_with_ids_of_their_own_are_found_out_at_the_end(nats_server: NatsServer, streams: Streams) -> None:
    run = Run(nats_server, streams, own_ids=True)
    broken_off(run)
    with pytest.raises(Refused, match="of 130 rows that it had when it broke off, 70 are not among those of now"):
        run.job([numbers(range(70, 150)), []])
    # They are there, as the error says; the run can still be ended as it was begun.
    assert run.stored() == list(range(150))
    run.job(FIRST)
    assert run.stored() == list(range(200))


@pytest.mark.parametrize("breaks_after", [30, None], ids=["begun", "complete"])
def test_another_choice_or_other_columns_are_told_before_there_is_a_task(
    nats_server: NatsServer, streams: Streams, breaks_after: int | None
) -> None:
    run = Run(nats_server, streams, runSelection="day = 1")
    if breaks_after is None:
        run.job(FIRST)
    else:
        broken_off(run)
    for columns, selection, words in (
        ("data binary", "day = 2", "with runSelection 'day = 1', and is given 'day = 2' now: nothing was written"),
        ("data string", "day = 1", "with columns 'data binary', and is given 'data string' now"),
    ):
        again = {
            "subject": f"{streams.root}.a",
            "runid": run.stream,
            "commitmarker": "true",
            "servers": nats_server.url,
        }
        with pytest.raises(Refused, match=words):
            look(write_options({**again, "runselection": selection}, {}, streaming=False), columns)


def test_what_does_not_fit_into_the_ledger_is_not_compared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MOST_DIGESTS", 15)
    monkeypatch.setattr(task, "_NOTED_ROWS", 10)
    broken_off(run)
    with pytest.raises(Refused, match="of 15 rows that partition 0 had"):
        run.job([numbers(range(15, 100)), FIRST[1]])
    run.job(FIRST)
    assert run.stored() == list(range(200))
