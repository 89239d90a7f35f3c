"""Archive a channel: every stored message once, as Parquet by date and type; it goes on where the last run has ended.

    spark-submit spark/jobs/archive.py --channel shop/orders --target s3a://lake/orders --compact

Run it by a schedule, one at a time. Dates are those of storage, in UTC. What is no event is kept with its error.
Source, id and all headers stay, so that `replay.py` can send them again. With `--format delta` or `iceberg`, and the
package of one, the target is a table's path or name, and compaction is the table's own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headrace.core.errors import Misconfigured, Refused
from headrace.core.plural import counted
from pyspark_jetstream.client import StreamInfo
from pyspark_jetstream.jobs import session
from pyspark_jetstream.jobs.parquet_archive import ParquetArchive
from pyspark_jetstream.jobs.table_archive import TableArchive
from pyspark_jetstream.schema import EVENT_COLUMNS

# The headers stand beside the attributes, so that headers that only pass through are kept, too.
COLUMNS = ", ".join(f"{name} {kind}" for name, kind in {**EVENT_COLUMNS, "headers": "map<string,string>"}.items())


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="archive.py", description=__doc__.splitlines()[0] if __doc__ else "")
    session.add_origin(parser)
    parser.add_argument("--target", required=True, help="a folder, where Spark can write")
    parser.add_argument("--format", choices=("parquet", "delta", "iceberg"), default="parquet")
    parser.add_argument("--range", type=int, default=1_000_000, help="messages per commit (%(default)s)")
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="go on when messages were discarded before they were archived"
    )
    parser.add_argument("--compact", action="store_true", help="afterwards, of dates before today")
    parser.add_argument("--compact-files", type=int, default=8, help="from so many files of a partition (%(default)s)")
    parser.add_argument("--compact-mib", type=int, default=128, help="to files of about that size (%(default)s)")
    session.add_connection(parser)
    given = parser.parse_args(words)
    for name in ("range", "compact_files", "compact_mib"):
        if getattr(given, name) < 1:
            argument = f"--{name.replace('_', '-')}"
            raise Misconfigured(
                f"{argument} is {getattr(given, name)}: write a whole number of at least 1", field=argument
            )
    return given


def rows(messages: DataFrame) -> DataFrame:
    """The rows in the form of the archive: with a date and a type in each, since folders are made of both."""
    return messages.withColumn("date", f.date_format("timestamp", "yyyy-MM-dd")).withColumn(
        "type", f.coalesce("type", f.lit("headrace.faulty"))
    )


def ranges(start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    for at in range(start, end, size):
        yield at, min(at + size, end)


def start_in(info: StreamInfo, wanted: int | None, *, allow_data_loss: bool) -> int:
    """The sequence to go on with.

    Args:
        wanted: None for a new archive.

    Raises:
        Refused: the next messages are gone, or the stream is another one.
    """
    if wanted is None:
        return info.first
    if wanted > info.last + 1:
        raise Refused(
            f"stream {info.name} ends at {info.last}, and the archive has {wanted - 1}: it was made anew or has "
            "shrunk; use a new target",
            status=409,
        )
    if wanted < info.first and not allow_data_loss:
        raise Refused(
            f"messages {wanted} to {info.first - 1} of stream {info.name} were discarded before they were archived: "
            "go on with --allow-data-loss",
            status=410,
        )
    return max(wanted, info.first)


def fill(
    given: argparse.Namespace,
    info: StreamInfo,
    start: int,
    load: Callable[[int, int], DataFrame],
    add: Callable[[DataFrame, int, int], int],
) -> None:
    """Archive range after range.

    Args:
        add: stores a frame of the messages from a first sequence up to another, not included; gives their number.
    """
    rows = 0
    for first, end in ranges(start, info.last + 1, given.range):
        rows += add(load(first, end), first, end)
        session.say(f"{counted(rows, 'message')} archived, up to sequence {end - 1} of {info.last}")
    if start > info.last:
        session.say(f"nothing to archive: stream {info.name} has no message from sequence {start} on")


def main(words: list[str]) -> None:
    given = arguments(words)
    options = {**session.connection_options(given), **session.origin_options(given)}
    # This comes before Spark, which starts slowly.
    info = session.stream_of(options)
    spark = session.session("headrace archive")

    def load(start: int, end: int) -> DataFrame:
        # From here on the stream is read by its own name: the channel might get another stream meanwhile.
        wanted = {
            **session.connection_options(given),
            "stream": info.name,
            "cloudevents": "true",
            "startingSequence": str(start),
            "endingSequence": str(end - 1),
            "failOnDataLoss": str(not given.allow_data_loss).lower(),
        }
        return rows(session.reader(spark, wanted).schema(COLUMNS).load())

    if given.format != "parquet":
        table = TableArchive(spark, given.format, given.target)
        start = start_in(info, table.next(info.name), allow_data_loss=given.allow_data_loss)
        fill(given, info, start, load, lambda frame, first, end: table.add(frame, info.name, first, end))
        return
    archive = ParquetArchive(spark, given.target)
    archive.recover()
    last = archive.last()
    if last is not None and (last.stream, last.created) != (info.name, info.created):
        raise Refused(
            f"the archive is of stream {last.stream}, made {last.created}, and not of {info.name}, made "
            f"{info.created}: use a new target",
            status=409,
        )
    start = start_in(info, None if last is None else last.end, allow_data_loss=given.allow_data_loss)

    def add(frame: DataFrame, start: int, end: int) -> int:
        return archive.add(frame, info.name, info.created, start, end).rows

    fill(given, info, start, load, add)
    if given.compact:
        today = datetime.now(UTC).date().isoformat()
        for partition, before, after in archive.compact(today, given.compact_files, given.compact_mib * 1024 * 1024):
            session.say(f"{partition}: {counted(before, 'file is', 'files are')} {after} now")


if __name__ == "__main__":
    session.run(main)
