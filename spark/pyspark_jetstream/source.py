"""The data source `jetstream`, which Spark calls first.

Options are checked here, on the driver, so that a wrong one is reported before any task runs. Readers connect when they
plan. A writer plans nothing, so the source itself looks whether there is a stream to write to.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_jetstream.client.access import environment
from pyspark_jetstream.options import ReadOptions, read_options
from pyspark_jetstream.schema import default_ddl


class JetStreamDataSource(DataSource):
    """`spark.read.format("jetstream")`, and the same with `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def schema(self) -> str:
        """The columns when the query names none; Spark calls it before it is known whether the query is a batch."""
        return default_ddl(self._read_options(streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_jetstream.batch_reader import BatchReader

        return BatchReader(self._read_options(streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_jetstream.stream_reader import StreamReader

        return StreamReader(self._read_options(streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from pyspark_jetstream.writing.options import write_options
        from pyspark_jetstream.writing.writers import BatchWriter, look

        options = write_options(self.options, environment(), streaming=False)
        found = BatchWriter(options, schema, overwrite=overwrite)
        look(options, found.batch.columns)
        return found

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from pyspark_jetstream.writing.options import write_options
        from pyspark_jetstream.writing.writers import StreamWriter, look

        options = write_options(self.options, environment(), streaming=True)
        found = StreamWriter(options, schema, overwrite=overwrite)
        look(options)
        return found

    def _read_options(self, *, streaming: bool | None) -> ReadOptions:
        return read_options(self.options, environment(), streaming=streaming)
