"""A driver of its own: one streaming query from a stream to Parquet, run as a program so that it can be killed.

python -m tests.support.spark.spark_driver STREAM DIRECTORY LIMIT
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.spark.spark_session import local_session


def command(stream: str, directory: Path, limit: int) -> list[str]:
    return [sys.executable, "-m", "tests.support.spark.spark_driver", stream, str(directory), str(limit)]


def main(stream: str, directory: str, limit: str) -> None:
    """Ends when all is read that was there at the start."""
    options = {"stream": stream, "startingOffsets": "earliest", "maxMessagesPerTrigger": limit, "minPartitions": "2"}
    with local_session("2") as spark:
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
