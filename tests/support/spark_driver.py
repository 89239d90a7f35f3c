"""A driver of its own: one streaming query from a stream to Parquet, run as a program so that it can be killed.

python -m tests.support.spark_driver STREAM DIRECTORY LIMIT
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
from pyspark.sql import SparkSession


def command(stream: str, directory: Path, limit: int) -> list[str]:
    return [sys.executable, "-m", "tests.support.spark_driver", stream, str(directory), str(limit)]


def kill(pid: int) -> None:
    """The driver, its JVM and all Python workers, at once and without a word."""
    driver = psutil.Process(pid)
    for process in [driver, *driver.children(recursive=True)]:
        process.kill()


def main(stream: str, directory: str, limit: str) -> None:
    """Ends when all is read that was there at the start."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    options = {"stream": stream, "startingOffsets": "earliest", "maxMessagesPerTrigger": limit, "minPartitions": "2"}
    frame = spark.readStream.format("jetstream").options(**options).load()
    query = (
        frame.select("sequence", "data")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{directory}/out")
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
