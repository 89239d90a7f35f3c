"""kill -9 of driver, JVM and workers in the middle of a batch, and a restart: every sequence once, and none missing."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.nats.nats_server import NatsServer
from tests.support.spark import spark_driver
from tests.support.spark.spark_programs import SECONDS, Program, run
from tests.support.spark.spark_streams import Streams

MESSAGES = 300_000
# Six batches, of two tasks each.
LIMIT = 50_000


def test_a_killed_query_reads_every_sequence_once(
    spark: SparkSession, nats_server: NatsServer, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make(storage="file")
    streams.fill(MESSAGES)
    environment = {"NATS_URL": nats_server.url}
    command = spark_driver.command(stream, tmp_path, LIMIT)
    with Program(command, environment) as driver:
        wait_for_the_middle(driver, streams, stream, tmp_path, batches=2)
        driver.kill()
    run(command, environment)
    rows = spark.read.parquet(str(tmp_path / "out")).select("sequence").collect()
    assert sorted(row.sequence for row in rows) == list(range(1, MESSAGES + 1))


def wait_for_the_middle(driver: Program, streams: Streams, stream: str, tmp_path: Path, batches: int) -> None:
    """Until so many batches are committed and a consumer tells that a task is reading another one."""
    deadline = time.monotonic() + SECONDS
    commits = tmp_path / "checkpoint" / "commits"
    while True:
        assert not driver.has_ended, "the driver has ended before it could be killed"
        assert time.monotonic() < deadline, f"there were never {batches} committed batches and a task at work"
        # Other files there are checksums.
        committed = sum(one.name.isdigit() for one in commits.glob("*"))
        if committed >= batches and streams.jetstream.call(f"CONSUMER.NAMES.{stream}")["consumers"]:
            return
        time.sleep(0.002)
