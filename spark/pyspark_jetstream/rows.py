"""Stored messages to Arrow record batches, column by column; columns that nobody asked for cost nothing.

The heart of the reader's speed: work is done per chunk where it can be, and per message only where it must.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.delivery.parked import ONLY
from pyspark_jetstream.client.messages import Messages
from pyspark_jetstream.header_maps import header_maps

_ONLY_LINE = f"\r\n{ONLY.lower()}:".encode()
# The end of the header's name, in any case, so that the search needs no copy in lower case.
_MAY_BE_ONLY = re.compile(re.escape(f"-{ONLY.rpartition('-')[2]}:".encode()), re.IGNORECASE)

Column = Callable[[Messages, str], "pa.Array"]


def without_replays(messages: Messages) -> Messages:
    """The messages without the replays for one subscriber of a channel: with them an event would be read twice."""
    if _MAY_BE_ONLY.search(b"".join(messages.blocks)) is None:
        # The usual case is cheap: one look at all of them.
        return messages
    kept = [at for at, block in enumerate(messages.blocks) if _ONLY_LINE not in block.lower()]
    return messages if len(kept) == len(messages) else messages.chosen(kept)


def record_batch(messages: Messages, stream: str, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the columns of `schema.MESSAGE_COLUMNS` that this Arrow schema names."""
    return pa.RecordBatch.from_arrays(
        [COLUMNS[field.name](messages, stream).cast(field.type) for field in schema], schema=schema
    )


def text_array(values: Sequence[bytes]) -> pa.Array:
    """Bytes as text; bytes that are not UTF-8 become replacement characters, as everywhere in Spark."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in values], pa.string())


def timestamps(messages: Messages, _stream: str) -> pa.Array:
    """The times in microseconds, Spark's unit, rounded down."""
    nanoseconds = pa.array(messages.timestamps(), pa.int64())
    return pc.divide(nanoseconds, 1000).cast(pa.timestamp("us", "UTC"))


def _stream(messages: Messages, stream: str) -> pa.Array:
    return pa.repeat(pa.scalar(stream, pa.string()), len(messages))


def _subjects(messages: Messages, _stream: str) -> pa.Array:
    return text_array(messages.subjects)


def _sequences(messages: Messages, _stream: str) -> pa.Array:
    return pa.array(messages.sequences, pa.int64())


def _payloads(messages: Messages, _stream: str) -> pa.Array:
    return pa.array(messages.payloads, pa.binary())


def _headers(messages: Messages, _stream: str) -> pa.Array:
    return header_maps(messages.blocks)


COLUMNS: dict[str, Column] = {
    "stream": _stream,
    "subject": _subjects,
    "sequence": _sequences,
    "timestamp": timestamps,
    "headers": _headers,
    "data": _payloads,
}
