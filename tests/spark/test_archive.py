"""The archive: every message once, whenever the job dies, and however often it is run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.core.errors import Refused
from jobs import archive
from pyspark_jetstream.jobs import table_archive
from pyspark_jetstream.jobs.files import Files
from pyspark_jetstream.jobs.parquet_archive import ParquetArchive
from tests.support.spark.spark_channels import Channel


def archived(spark: SparkSession, target: Path) -> list[int]:
    return sorted(row.sequence for row in spark.read.parquet(str(target)).select("sequence").collect())


class Died(Exception):
    pass


def test_an_archive_has_every_event_once_by_date_and_type_and_goes_on_where_it_ended(
    spark: SparkSession, orders: Channel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--channel", orders.name, "--target", str(tmp_path / "lake"), "--range", "300"]
    orders.send(400)
    archive.main(words)
    orders.send(100, start=400)
    orders.streams.jetstream.call(f"STREAM.MSG.DELETE.{orders.stream}", {"seq": 450})
    capsys.readouterr()
    archive.main(words)
    assert "99 messages archived, up to sequence 500 of 500" in capsys.readouterr().err
    archive.main(words)
    assert "nothing to archive: stream" in capsys.readouterr().err
    assert archived(spark, tmp_path / "lake") == [*range(1, 450), *range(451, 501)]
    today = datetime.now(UTC).date()
    days = {f"date={day.isoformat()}" for day in (today, today - timedelta(days=1))}
    folders = {path.name for path in (tmp_path / "lake").iterdir() if path.name.startswith("date=")}
    assert folders <= days
    types = {path.name for path in (tmp_path / "lake").glob("date=*/*")}
    assert types == {"type=order.0", "type=order.1", "type=order.2"}
    row = spark.read.parquet(str(tmp_path / "lake")).where("id = '7'").first()
    assert row is not None
    assert (row.source, row.type, bytes(row.data), row.headers["traceparent"][:5]) == (
        "/shop",
        "order.1",
        b"7",
        "00-00",
    )


@pytest.mark.parametrize("calls", [0, 3, 9], ids=lambda calls: f"after {calls} file operations")
def test_an_archive_that_died_at_any_point_is_finished_by_the_next_run(
    spark: SparkSession, orders: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    words = ["--stream", orders.stream, "--target", str(tmp_path / "lake"), "--range", "100"]
    orders.send(200)
    rename, left = Files.rename, [calls]

    def dying(files: Files, old: str, new: str) -> None:
        if not left[0]:
            raise Died
        left[0] -= 1
        rename(files, old, new)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "rename", dying)
        with pytest.raises(Died):
            archive.main(words)
    orders.send(50, start=200)
    archive.main(words)
    assert archived(spark, tmp_path / "lake") == list(range(1, 251))
    assert list((tmp_path / "lake" / "_headrace" / "staging").iterdir()) == []


@pytest.mark.parametrize("calls", [None, 0, 2], ids=lambda calls: f"dying after {calls}")
def test_small_files_become_large_ones_and_no_row_is_lost_or_doubled(
    spark: SparkSession, orders: Channel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int | None
) -> None:
    lake = tmp_path / "lake"
    orders.send(90)
    archive.main(["--stream", orders.stream, "--target", str(lake), "--range", "30"])
    assert len(list(lake.glob("date=*/*/*.parquet"))) == 9
    delete, left = Files.delete, [calls]

    def dying(files: Files, relative: str) -> None:
        if left[0] is not None and relative.startswith("date="):
            if not left[0]:
                raise Died
            left[0] -= 1
        delete(files, relative)

    one = ParquetArchive(spark, str(lake))
    with monkeypatch.context() as patched:
        patched.setattr(Files, "delete", dying)
        if calls is None:
            assert [(before, after) for _, before, after in one.compact("9999-01-01", 3, 2**27)] == [(3, 1)] * 3
        else:
            with pytest.raises(Died):
                list(one.compact("9999-01-01", 3, 2**27))
    one.recover()
    assert archived(spark, lake) == list(range(1, 91))
    assert len(list(lake.glob("date=*/*/*.parquet"))) == (3 if calls is None else 7)
    assert list(one.compact(datetime(2026, 1, 1, tzinfo=UTC).date().isoformat(), 2, 2**27)) == []


def test_an_archive_refuses_what_would_leave_a_gap_or_mix_two_streams(
    spark: SparkSession, orders: Channel, tmp_path: Path
) -> None:
    words = ["--channel", orders.name, "--target", str(tmp_path / "lake")]
    orders.send(10)
    archive.main(words)
    orders.send(10, start=10)
    orders.streams.jetstream.call(f"STREAM.PURGE.{orders.stream}", {"seq": 15})
    with pytest.raises(Refused, match=r"messages 11 to 14 .* --allow-data-loss"):
        archive.main(words)
    archive.main([*words, "--allow-data-loss"])
    assert archived(spark, tmp_path / "lake") == [*range(1, 11), *range(15, 21)]
    orders.streams.delete(orders.stream)
    orders.streams.make("_orders", subjects=[orders.subject])
    with pytest.raises(Refused, match="use a new target"):
        archive.main(words)


def test_a_table_says_where_it_ends_and_counts_what_a_range_has_brought(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Parquet in the place of a table format, whose packages this session does not have.
    monkeypatch.setattr(table_archive, "_check_installed", lambda _spark, _kind: None)
    table = table_archive.TableArchive(spark, "parquet", str(tmp_path / "table"))
    assert table.next("S") is None

    def rows(*sequences: int) -> DataFrame:
        kinds = "stream string, sequence long, date string, type string"
        return spark.createDataFrame([("S", sequence, "2026-01-31", "t") for sequence in sequences], kinds)

    assert table.add(rows(1, 2, 5), "S", 1, 6) == 3
    assert (table.next("S"), table.next("other")) == (6, None)
    assert table.add(rows(7), "S", 6, 11) == 1
