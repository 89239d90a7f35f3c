"""Replay events into a channel: from an archive, or from a range of a stream, chosen by SQL, at a bounded rate.

    spark-submit spark/jobs/replay.py --parquet s3a://lake/orders --where "date = '2026-01-31'" --to shop/orders
    spark-submit spark/jobs/replay.py --rate 500 --channel shop/orders --since 2026-01-31T09:00:00Z --to shop/orders-v2

Source, id, attributes and data stay as they were. All subscribers of the channel get the events, like any others. The
server must not take them for the events that they are: so their message ids carry the run, and the place where each was
stored. With `--run NAME` a run that was broken off can be repeated, and sends only what is missing. A name is for one
choice of events: others are refused, before anything is sent.
"""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.core.errors import Misconfigured
from headrace.core.plural import counted
from pyspark_jetstream.jobs import session
from pyspark_jetstream.schema import EVENT_COLUMNS

_COLUMNS = {**EVENT_COLUMNS, "headers": "map<string,string>", "specversion": "string"}
# The sink's names for options, and the names of these arguments.
_SAYS = {
    "Set onFaultyRow to skip to write the others": "Give --skip-faulty to send the others",
    "Give another runId for other rows": "Give another --run for other events",
    "or another runId for other rows": "or another --run for other events",
    "with runSelection": "with the choice",
}
_STREAM_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="replay.py", description=__doc__.splitlines()[0] if __doc__ else "")
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument("--parquet", metavar="FOLDER", help="of events, as archive.py writes it")
    origin.add_argument("--channel", metavar="NAMESPACE/NAME")
    origin.add_argument("--stream")
    parser.add_argument("--from-sequence", type=int, help="of a channel or stream")
    parser.add_argument("--to-sequence", type=int, help="the last one")
    parser.add_argument("--since", help="RFC 3339; of a channel or stream")
    parser.add_argument("--until", help="RFC 3339")
    parser.add_argument("--where", help="an SQL condition on the columns")
    parser.add_argument("--to", required=True, metavar="NAMESPACE/NAME", help="the channel that gets them")
    parser.add_argument("--rate", type=int, help="events per second at most, over all tasks")
    parser.add_argument("--tasks", type=int, default=1, help="with one, in the order of storage (%(default)s)")
    parser.add_argument("--run", help="a name; the same again sends only what is missing")
    parser.add_argument(
        "--skip-faulty", action="store_true", help="leave out what is no event or too large, and count it"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say how many")
    parser.add_argument("--write-option", action="append", default=[], metavar="NAME=VALUE", help="of the sink")
    session.add_connection(parser)
    return parser.parse_args(words)


def chosen(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """The events, as they were stored."""
    if given.parquet:
        # An event type of digits is still text.
        spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        frame = archived(spark, given.parquet)
    else:
        frame = session.reader(spark, origin(given)).schema(_STREAM_COLUMNS).load()
    return session.where(frame, given.where)


def archived(spark: SparkSession, folder: str) -> DataFrame:
    """Raises:
    Misconfigured: there is no Parquet.
    """
    try:
        return spark.read.parquet(folder)
    except AnalysisException as error:
        raise Misconfigured(
            f"--parquet is {folder!r}: {session.first_line(error)}: name a folder that archive.py has filled",
            field="--parquet",
        ) from error


def origin(given: argparse.Namespace) -> dict[str, str]:
    """The options that name the origin, with its start and its end. Empty for an archive.

    Raises:
        Misconfigured: an archive has no start and no end.
    """
    places = {
        "startingSequence": given.from_sequence,
        "endingSequence": given.to_sequence,
        "startingTimestamp": given.since,
        "endingTimestamp": given.until,
    }
    named = {name: str(value) for name, value in places.items() if value is not None}
    if given.parquet and named:
        raise Misconfigured("a folder is chosen from by --where, not by sequence or time", field="--where")
    if given.parquet:
        return {}
    return {**session.connection_options(given), **session.origin_options(given), **named, "cloudevents": "true"}


def outgoing(frame: DataFrame, run: str, tasks: int) -> DataFrame:
    """The frame with the columns that the sink takes, and with ids that no event has."""
    has_place = {"stream", "sequence"} <= set(frame.columns)
    kept = frame.select(*[name for name in frame.columns if name in _COLUMNS])
    if has_place:
        # A second copy of an event in one archive is an event that was stored twice, and so it is sent twice.
        place = f.concat_ws(":", f.lit("replay"), f.lit(run), "stream", f.col("sequence").cast("string"))
        kept = kept.withColumn("msg_id", place)
    spread = kept.coalesce(1) if tasks == 1 else kept.repartition(tasks)
    return spread.sortWithinPartitions("stream", "sequence") if has_place else spread


def sink_options(given: argparse.Namespace, run: str) -> dict[str, str]:
    found = {**session.connection_options(given), "channel": given.to, "runId": run, "msgIds": "content"}
    if given.run:
        found |= {"commitMarker": "true", "runSelection": selection(given)}
    if given.skip_faulty:
        found["onFaultyRow"] = "skip"
    if given.rate:
        found["maxRowsPerSecond"] = str(max(1, given.rate // given.tasks))
    return {**found, **session.named_options(given.write_option, "--write-option")}


def selection(given: argparse.Namespace) -> str:
    """The arguments that chose the events, for the run's marker: `--parquet lake --where "type = 'a'"`."""
    said = {
        "--parquet": given.parquet,
        "--channel": given.channel,
        "--stream": given.stream,
        "--from-sequence": given.from_sequence,
        "--to-sequence": given.to_sequence,
        "--since": given.since,
        "--until": given.until,
        "--where": given.where,
    }
    return " ".join(f"{name} {shlex.quote(str(value))}" for name, value in said.items() if value is not None)


def main(words: list[str]) -> None:
    given = arguments(words)
    if given.tasks < 1 or (given.rate is not None and given.rate < given.tasks):
        raise Misconfigured(f"--rate is {given.rate}: write at least one event per second and task", field="--rate")
    run = given.run or uuid4().hex
    if "/" not in given.to:
        raise Misconfigured(f"--to is {given.to!r}: write the channel as NAMESPACE/NAME", field="--to")
    options = origin(given)
    # Both ends are checked before Spark, which starts slowly.
    session.check_target(sink_options(given, run))
    if options:
        session.stream_of(options)
    spark = session.session("headrace replay")
    frame = chosen(spark, given)
    if given.dry_run:
        may_be_faulty = given.skip_faulty and "error" in frame.columns
        print((frame.where("error IS NULL") if may_be_faulty else frame).count())
        return
    session.say(f"run {run}: to {given.to}" + (f" at {given.rate} a second" if given.rate else ""))
    with TemporaryDirectory() as folder:
        file = Path(folder, "summary")
        writer = outgoing(frame, run, given.tasks).write.format("jetstream").mode("append")
        try:
            writer.options(**sink_options(given, run), summaryFile=str(file)).save()
        except PySparkException as error:
            if "was complete before" not in str(error) and "was begun with" not in str(error):
                session.say(broken_off(given, run))
            raise
        session.say(summary_line(json.loads(file.read_text(encoding="utf-8")), run, given.to))


def broken_off(given: argparse.Namespace, run: str) -> str:
    """The advice after a failure: tasks that fail do not say what they have sent."""
    window = "" if given.run else ", as long as the channel's stream remembers message ids (two minutes by default)"
    part = f"run {run} has failed, and an unknown part may be in {given.to}"
    return f"{part}: --run {run} sends only what is missing{window}"


def summary_line(summary: dict[str, Any], run: str, to: str) -> str:
    """One line with the counts that the sink has noted."""
    if summary["wasComplete"]:
        these = counted(summary["rows"], "event")
        return f"run {run} was complete before, with {these}, the same: none is sent to {to} again"
    words = f"run {run}: {counted(summary['stored'], 'event')} sent to {to}"
    if there := summary["alreadyThere"] + summary["notSentAgain"]:
        words += f", {there} there already"
    if summary["faulty"]:
        words += f", {summary['faulty']} faulty and left out ({'; '.join(summary['faults'])})"
    return words


def run(words: list[str] | None = None) -> None:
    session.run(main, words, says=_SAYS)


if __name__ == "__main__":
    run()
