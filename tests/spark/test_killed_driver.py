"""kill -9 of driver, JVM and workers in the middle of a batch, and a restart: every sequence once, and none missing."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support import spark_driver
from tests.support.nats_server import NatsServer
from tests.support.spark_streams import Streams

MESSAGES = 300_000
# Six batches, of two tasks each.
LIMIT = 50_000
# On busy cores a session alone takes half a minute.
SECONDS = 240.0


def test_a_killed_query_reads_every_sequence_once(
    spark: SparkSession, nats_server: NatsServer, streams: Streams, tmp_path: Path
) -> None:
    stream = streams.make(storage="file")
    streams.fill(MESSAGES)
    environment = {**os.environ, "NATS_URL": nats_server.url}
    command = spark_driver.command(stream, tmp_path, LIMIT)
    driver = subprocess.Popen(command, env=environment)
    kill_in_the_middle(driver, streams, stream, tmp_path, batches=2)
    subprocess.run(command, env=environment, check=True, timeout=SECONDS)
    rows = spark.read.parquet(str(tmp_path / "out")).select("sequence").collect()
    assert sorted(row.sequence for row in rows) == list(range(1, MESSAGES + 1))


def kill_in_the_middle(
    driver: subprocess.Popen[bytes], streams: Streams, stream: str, tmp_path: Path, batches: int
) -> None:
    """As soon as so many batches are committed and a consumer tells that a task is reading another one."""
    deadline = time.monotonic() + SECONDS
    commits = tmp_path / "checkpoint" / "commits"
    try:
        while True:
            assert driver.poll() is None, "the driver has ended before it could be killed"
            assert time.monotonic() < deadline, f"there were never {batches} committed batches and a task at work"
            # Other files there are checksums.
            committed = sum(one.name.isdigit() for one in commits.glob("*"))
            if committed >= batches and streams.jetstream.call(f"CONSUMER.NAMES.{stream}")["consumers"]:
                return
            time.sleep(0.002)
    finally:
        spark_driver.kill(driver.pid)
        driver.wait()
