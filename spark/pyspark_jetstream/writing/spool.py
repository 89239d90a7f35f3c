"""A file for record batches that are looked at before they are written, since Spark gives them only once."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from types import TracebackType

import pyarrow as pa


class Spool:
    """First all of `add`, then `batches`, once. A context manager that deletes the file; it lies where TMPDIR says."""

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="pyspark-jetstream-")  # noqa: SIM115  # closed by __exit__
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        with pa.ipc.open_stream(self._file) as reader:
            yield from reader
