"""Batch and streaming queries over the data source, for the Spark tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

START_SECONDS = 240.0
T = TypeVar("T")


def batch(spark: SparkSession, stream: str, schema: str | None = None, **options: object) -> DataFrame:
    reader = spark.read.format("jetstream").options(**_texts({"stream": stream, **options}))
    return (reader.schema(schema) if schema else reader).load()


def sequences(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("sequence").collect())


def until_started(run: Callable[[], T]) -> T:
    """Run a streaming query, again if need be: Spark gives a Python worker ten seconds to start, on busy cores, too."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            return run()
        except StreamingQueryException as error:
            if "connect back" not in str(error):
                raise
    raise AssertionError(f"Spark could not start a Python worker in {START_SECONDS:.0f} s")


class Query:
    """A streaming query that is run again and again on one checkpoint, and what it has written to Parquet."""

    def __init__(self, spark: SparkSession, directory: Path, source: str = "jetstream", **options: object) -> None:
        self._spark = spark
        self._directory = directory
        self._source = source
        self._options = _texts({"startingOffsets": "earliest", **options})

    def run(self, **options: object) -> list[dict[str, Any]]:
        """Read all that there is, and stop; the progress of the batches."""
        return until_started(lambda: self._run(**options))

    def _run(self, **options: object) -> list[dict[str, Any]]:
        frame = self._spark.readStream.format(self._source).options(**{**self._options, **_texts(options)}).load()
        query = (
            frame.select("stream", "sequence", "data")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self._directory / "out"))
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [dict(one) for one in query.recentProgress if one["numInputRows"]]

    def written(self) -> list[tuple[str, int]]:
        """Stream and sequence of every row, in order: a row twice would come twice."""
        rows = self._spark.read.parquet(str(self._directory / "out")).select("stream", "sequence").collect()
        return sorted((row[0], row[1]) for row in rows)

    @property
    def numbers(self) -> list[int]:
        return [sequence for _, sequence in self.written()]


def _texts(options: dict[str, object]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
