"""A Delta or Iceberg table as an archive: an append is whole or not at all, so the table knows how far it has got."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.core.errors import Misconfigured

# A class of each format, which is there when the format's package is.
_CLASSES = {"delta": "io.delta.tables.DeltaTable", "iceberg": "org.apache.iceberg.spark.SparkCatalog"}
# The packages' names hold the Spark version that they are made for.
_PACKAGES = {"delta": "io.delta:delta-spark_{}_2.13", "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{}_2.13"}


class TableArchive:
    """One table, by path or name."""

    def __init__(self, spark: SparkSession, kind: str, table: str) -> None:
        """Raises:
        Misconfigured: the format's package is not in this session.
        """
        _check_installed(spark, kind)
        self._spark = spark
        self._kind = kind
        self._table = table
        self._is_path = "/" in table

    def next(self, stream: str) -> int | None:
        """The first sequence that the table lacks; None while there is no table, or no row of the stream."""
        try:
            found = self._rows().where(f.col("stream") == stream).agg(f.max("sequence")).first()
        except AnalysisException:
            return None
        return None if found is None or found[0] is None else int(found[0]) + 1

    def add(self, frame: DataFrame, stream: str, start: int, end: int) -> int:
        """Add a range; gives the number of rows in `start <= sequence < end`, as the table itself counts them."""
        writer = frame.write.format(self._kind).mode("append").partitionBy("date", "type")
        if self._is_path:
            writer.save(self._table)
        else:
            writer.saveAsTable(self._table)
        is_of_range = (f.col("stream") == stream) & (f.col("sequence") >= start) & (f.col("sequence") < end)
        return int(self._rows().where(is_of_range).count())

    def _rows(self) -> DataFrame:
        return (
            self._spark.read.format(self._kind).load(self._table) if self._is_path else self._spark.table(self._table)
        )


def _check_installed(spark: SparkSession, kind: str) -> None:
    jvm = spark._jvm
    if jvm is None:
        raise Misconfigured("this session has no JVM of its own: submit the job with spark-submit", field="spark")
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_CLASSES[kind])
    # py4j has one class for all errors of the JVM, which is not worth a dependency here.
    except Exception as error:
        package = _PACKAGES[kind].format(".".join(spark.version.split(".")[:2]))
        raise Misconfigured(
            f"--format is {kind!r}, and its package is not in this session: add it with "
            f"spark-submit --packages {package}:VERSION, or use parquet",
            field="--format",
        ) from error
