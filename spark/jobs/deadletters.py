"""Report parked events: those that could be delivered nowhere, by reason, subscriber, type and hour.

    spark-submit spark/jobs/deadletters.py --channel shop/orders --chart parked.svg

They lie in the channel's aside stream. To show, replay or discard them: `kn jetstream parked`.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headrace.core import names
from headrace.core.delivery import parked
from headrace.core.errors import Misconfigured
from headrace.core.event.nats_codec import FOREIGN_TYPE
from pyspark_jetstream.jobs import session
from pyspark_jetstream.jobs.chart import stacked_bars

BY = ("reason", "subscriber", "type", "hour")


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="deadletters.py", description=__doc__.splitlines()[0] if __doc__ else "")
    session.add_origin(parser)
    parser.add_argument("--by", default="reason,subscriber,type", help=f"of {', '.join(BY)} (%(default)s)")
    parser.add_argument("--since", help="RFC 3339: parked then or later")
    parser.add_argument("--most", type=int, default=50, help="rows of the report (%(default)s)")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="an SVG of parked events per hour and reason")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too, one object per line")
    session.add_connection(parser)
    return parser.parse_args(words)


def aside(given: argparse.Namespace) -> str:
    """The aside stream of the named stream or channel; a channel's stream may have a name of its own.

    Raises:
        Misconfigured: there is no such channel or stream.
    """
    if given.channel:
        return names.aside(session.stream_of({**session.connection_options(given), "channel": given.channel}).name)
    name = str(given.stream) if given.stream.endswith("_aside") else names.aside(given.stream)
    return session.stream_of({**session.connection_options(given), "stream": name}).name


def parked_events(messages: DataFrame) -> DataFrame:
    """One row per parked event, of the messages of an aside stream."""

    def header(name: str) -> Column:
        # Header names stay as they were sent: ours are written as here, those of events in any case.
        return f.try_element_at("headers", f.lit(name))

    lower = f.transform_keys("headers", lambda name, _: f.lower(name))
    own = f.try_element_at(lower, f.lit("ce-type"))
    structured = f.get_json_object(f.col("data").cast("string"), "$.type")
    is_structured = f.get_json_object(f.col("data").cast("string"), "$.specversion").isNotNull()
    return messages.where(header(parked.REASON).isNotNull()).select(
        # A number in a reason would make every event a group of its own.
        f.regexp_replace(header(parked.REASON), r"\d+", "N").alias("reason"),
        header(parked.SUBSCRIPTION).alias("subscriber"),
        f.coalesce(own, f.when(is_structured, structured), f.lit(FOREIGN_TYPE)).alias("type"),
        f.date_trunc("hour", "timestamp").alias("hour"),
        header(parked.ATTEMPTS).cast("int").alias("attempts"),
        "timestamp",
    )


def report(events: DataFrame, by: list[str]) -> DataFrame:
    return (
        events.groupBy(*by)
        .agg(
            f.count("*").alias("events"),
            f.round(f.avg("attempts"), 1).alias("mean attempts"),
            f.min("timestamp").alias("first"),
            f.max("timestamp").alias("last"),
        )
        .orderBy(f.desc("events"), *by)
    )


def chart(events: DataFrame, title: str) -> str:
    """Parked events per hour (UTC), by reason; hours without any are shown, too."""
    rows = events.groupBy("hour", "reason").count().collect()
    if not rows:
        return stacked_bars(title, [], {})
    seconds = sorted({int(row.hour.timestamp()) for row in rows})
    hours = list(range(seconds[0], seconds[-1] + 1, 3600))
    counts = {row.reason: [0] * len(hours) for row in rows}
    for row in rows:
        counts[row.reason][(int(row.hour.timestamp()) - hours[0]) // 3600] += row["count"]
    return stacked_bars(title, [f"{datetime.fromtimestamp(hour, UTC):%m-%d %H}h" for hour in hours], counts)


def main(words: list[str]) -> None:
    given = arguments(words)
    by = [word.strip() for word in given.by.split(",") if word.strip()]
    unknown = [word for word in by if word not in BY]
    if unknown or not by:
        raise Misconfigured(f"--by is {given.by!r}: write some of {', '.join(BY)}, with commas", field="--by")
    stream = aside(given)
    options = {**session.connection_options(given), "stream": stream, "subject": names.parked_subjects()}
    if given.since:
        options["startingTimestamp"] = given.since
    spark = session.session("headrace dead letters")
    events = parked_events(session.reader(spark, options).load()).cache()
    session.say(f"reading {stream}")
    found = report(events, by).limit(given.most).collect()
    headings = [*by, "events", "mean attempts", "first", "last"]
    print(session.table(headings, [["" if value is None else str(value) for value in row] for row in found]))
    if given.json:
        lines = ({name: str(value) for name, value in row.asDict().items()} for row in found)
        given.json.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if given.chart:
        given.chart.write_text(chart(events, f"Parked events of {given.channel or given.stream}"), encoding="utf-8")
        session.say(f"chart: {given.chart}")


if __name__ == "__main__":
    session.run(main)
