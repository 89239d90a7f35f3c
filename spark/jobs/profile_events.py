"""Profile a channel: per type and source how many events, how large, how often, and how late they are stored.

    spark-submit spark/jobs/profile_events.py --channel shop/orders --since 2026-01-31T00:00:00Z

Lag is the time from the event's `time` to when the stream stored it; negative when the producer's clock is ahead.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pyspark_jetstream.jobs import session

HEADINGS = [
    "type",
    "source",
    "events",
    "faulty",
    "mean bytes",
    "p99 bytes",
    "most bytes",
    "per second",
    "lag p50 s",
    "lag p99 s",
    "most lag s",
]


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="profile_events.py", description=__doc__.splitlines()[0] if __doc__ else "")
    session.add_origin(parser)
    parser.add_argument("--since", help="RFC 3339; all that there is, if not given")
    parser.add_argument("--until", help="RFC 3339")
    parser.add_argument("--where", help="an SQL condition on the columns of the source, as \"type like 'order.%%'\"")
    parser.add_argument("--most", type=int, default=50, help="rows of the report (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there, too, one object per line")
    session.add_connection(parser)
    return parser.parse_args(words)


def profile(events: DataFrame) -> DataFrame:
    """One row per type and source; the columns are `HEADINGS` with underscores."""
    size = f.length("data")
    # Computed in microseconds, which a cast to seconds would lose.
    lag = (f.unix_micros("timestamp") - f.unix_micros("time")) / 1e6
    seconds = (f.unix_micros(f.max("timestamp")) - f.unix_micros(f.min("timestamp"))) / 1e6
    return (
        events.groupBy("type", "source")
        .agg(
            f.count("*").alias("events"),
            f.count("error").alias("faulty"),
            f.round(f.avg(size), 1).alias("mean_bytes"),
            f.percentile_approx(size, 0.99).alias("p99_bytes"),
            f.max(size).alias("most_bytes"),
            # A single event has no rate.
            f.round((f.count("*") - 1) / f.nullif(seconds, f.lit(0.0)), 3).alias("per_second"),
            f.round(f.percentile_approx(lag, 0.5), 3).alias("lag_p50_s"),
            f.round(f.percentile_approx(lag, 0.99), 3).alias("lag_p99_s"),
            f.round(f.max(lag), 3).alias("most_lag_s"),
        )
        .orderBy(f.desc("events"), "type", "source")
    )


def main(words: list[str]) -> None:
    given = arguments(words)
    options = {**session.connection_options(given), **session.origin_options(given), "cloudevents": "true"}
    if given.since:
        options["startingTimestamp"] = given.since
    if given.until:
        options["endingTimestamp"] = given.until
    # This comes before Spark, which starts slowly.
    session.stream_of(options)
    spark = session.session("headrace profile")
    events = session.where(session.reader(spark, options).load(), given.where)
    session.say("reading")
    found = profile(events).limit(given.most).collect()
    rows = [["" if value is None else str(value) for value in row] for row in found]
    print(session.table(HEADINGS, rows))
    if given.json:
        given.json.write_text("".join(json.dumps(row.asDict()) + "\n" for row in found), encoding="utf-8")


if __name__ == "__main__":
    session.run(main)
