"""Record batches to messages, and to faults where a row is no message. Pure.

Arrow turns columns into Python values, a column at a time; a message is made per row. Control headers (`Nats-…`,
`Headrace-…`) are never taken from a column: one of them purges a stream, another hides a message.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import InvalidEvent, Refused
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.event import make_event
from headrace.core.event.nats_codec import MSG_ID
from headrace.core.nats.nats_wire import can_carry, header_block
from pyspark_jetstream.client.publish import Outgoing
from pyspark_jetstream.writing import columns
from pyspark_jetstream.writing.columns import Parts
from pyspark_jetstream.writing.ids import ContentIds
from pyspark_jetstream.writing.options import EVENT, WriteOptions

_CONTROL = ("nats-", "headrace-")
_START = b"NATS/1.0\r\n"
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class RowFault:
    """A row that is no message.

    Attributes:
        row: its number in the partition, from 0.
        reason: why, with the event's id if it has one.
    """

    row: int
    reason: str


def messages(
    batch: pa.RecordBatch, parts: Parts, options: WriteOptions, ids: ContentIds, first: int
) -> Iterator[Outgoing | RowFault]:
    """One message or fault for each row, in their order.

    Args:
        first: the number of the batch's first row in its partition.
    """
    frame = _Frame(batch, parts)
    make = _event if options.cloudevents else _message
    is_event_id = options.msg_ids == EVENT
    for at in range(batch.num_rows):
        row = first + at
        try:
            subject, block, data = make(frame, at, options.subject)
            given = frame.msg_ids[at]
            if given is not None:
                block = _with_id(block, _checked_id(given))
            elif not is_event_id:
                block = _with_id(block, ids.of(row, subject, block, data))
        except (InvalidEvent, Refused) as error:
            yield RowFault(row, f"{frame.name_of(at)}{error}")
        else:
            yield Outgoing(subject, block, data, row)


class _Frame:
    """The columns of one batch as Python values; missing ones are full of None."""

    def __init__(self, batch: pa.RecordBatch, parts: Parts) -> None:
        nothing: Sequence[None] = [None] * batch.num_rows

        def other(name: str, values: Callable[[pa.Array], Sequence[Any]]) -> Sequence[Any]:
            at = parts.others.get(name)
            return nothing if at is None else values(batch.column(at))

        self.names = list(parts.attributes)
        found = [texts(batch.column(at)) for at in parts.attributes.values()]
        self.attributes: list[tuple[str | None, ...]] = list(zip(*found, strict=True)) if found else []
        self.extensions = other("extensions", _maps)
        place = parts.others.get("headers")
        # The distinct names are judged once per batch, since few batches have a control header.
        names = [] if place is None else pc.unique(batch.column(place).keys).to_pylist()
        self.has_control_headers = any(map(_is_control, names))
        # Only messages have plain blocks: an event has headers of its own.
        is_plain = place is not None and not parts.attributes and all(can_carry(name, "") for name in names)
        self.blocks = _blocks(batch.column(place)) if is_plain and not self.has_control_headers else None
        self.headers: Sequence[Any] = nothing if self.blocks is not None else other("headers", _maps)
        self.data = other("data", _payloads)
        self.msg_ids = other(columns.MSG_ID, texts)
        self.errors = other(columns.ERROR, texts)
        self.subjects = other("subject", texts)
        self.nats_subjects = other(columns.NATS_SUBJECT, texts)

    def name_of(self, at: int) -> str:
        """Words by which a person may find the row: the event's id, if there is one."""
        if "id" not in self.names:
            return ""
        id = self.attributes[at][self.names.index("id")]
        return f"id {id[:_SHOWN]!r}: " if id else ""


def _event(frame: _Frame, at: int, subject: str) -> tuple[str, bytes, bytes]:
    if frame.errors[at] is not None:
        raise Refused(f"the reader found no event in it: {frame.errors[at]}", status=400)
    attributes = {
        name: value for name, value in zip(frame.names, frame.attributes[at], strict=True) if value is not None
    }
    attributes.setdefault("specversion", "1.0")
    for name, value in frame.extensions[at] or ():
        if name in attributes:
            raise Refused(f"extensions has {name!r}, which is a column, too: leave one of them out", status=400)
        attributes[name] = value
    event = make_event(attributes, frame.data[at] or b"")
    extra = _passing(frame.headers[at]) if frame.headers[at] else ()
    target = subject or frame.nats_subjects[at]
    if not target:
        raise Refused("nats_subject is missing: give one, or option subject", status=400)
    stored = nats_codec.to_binary(event, target, extra)
    return stored.subject, header_block(stored.headers), stored.data


def _message(frame: _Frame, at: int, subject: str) -> tuple[str, bytes, bytes]:
    target = subject or frame.subjects[at]
    if not target:
        raise Refused("subject is missing: give one, or option subject", status=400)
    if frame.blocks is not None:
        return target, frame.blocks[at], frame.data[at] or b""
    pairs = frame.headers[at]
    headers = dict(pairs) if pairs else {}
    if frame.has_control_headers:
        headers = {name: value for name, value in headers.items() if not _is_control(name)}
    return target, header_block(headers) if headers else b"", frame.data[at] or b""


def _is_control(name: str) -> bool:
    return name.lower().startswith(_CONTROL)


def _passing(headers: Sequence[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    return http_codec.passthrough((name.encode(), value.encode()) for name, value in headers)


def _checked_id(text: str) -> str:
    if not text or not text.isprintable():
        raise Refused(f"msg_id is {text[:_SHOWN]!r}: give printable text, or null for the id that we make", status=400)
    return text


def _with_id(block: bytes, id: str) -> bytes:
    """The header block with this id, and no other."""
    line = f"{MSG_ID}: {id}\r\n".encode()
    if not block:
        return b"".join((_START, line, b"\r\n"))
    own = _START + MSG_ID.encode() + b": "
    # The codec puts an event's own id first.
    rest = block[block.index(b"\r\n", len(own)) + 2 :] if block.startswith(own) else block[len(_START) :]
    return b"".join((_START, line, rest))


def texts(values: pa.Array) -> list[str | None]:
    """CloudEvents' canonical strings of any column that `columns` lets pass."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        # The times go to UTC and lose the zone, so that no table of time zones is read.
        naive = values.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        text = pc.replace_substring(naive.cast(pa.string()), " ", "T")
        trimmed = pc.replace_substring_regex(text, r"\.?0*$", "")
        has_fraction = pc.match_substring_regex(text, r"\.\d*[1-9]")
        whole = pc.replace_substring_regex(text, r"\.\d*$", "")
        chosen = pc.if_else(has_fraction, trimmed, whole)
        values = pc.binary_join_element_wise(chosen, "Z", "")
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else b64encode(value).decode() for value in values.to_pylist()]
    elif not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        values = values.cast(pa.string())
    found: list[str | None] = values.to_pylist()
    return found


def _payloads(values: pa.Array) -> list[bytes | None]:
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.binary())
    found: list[bytes | None] = values.to_pylist()
    return found


def _blocks(values: pa.Array) -> list[bytes] | None:
    """The header blocks of maps with legal names, as `header_block` makes them; None when a value may not be legal."""
    items = values.items
    if items.null_count or pc.any(pc.match_substring_regex(items, r"[\r\n\x00]")).as_py():
        return None
    lines = pc.binary_join_element_wise(values.keys, items, ": ")
    joined = pc.binary_join(pa.ListArray.from_arrays(values.offsets, lines), "\r\n")
    return [b"NATS/1.0\r\n%b\r\n\r\n" % text if text else b"" for text in joined.cast(pa.binary()).to_pylist()]


def _maps(values: pa.Array) -> Sequence[list[tuple[str, str]] | None]:
    """Names and values of each map; taken out by columns, since taking out single maps is slow.

    A name whose value is null is left out.
    """
    pairs = list(zip(values.keys.to_pylist(), values.items.to_pylist(), strict=True))
    found: list[list[tuple[str, str]]] = [pairs[start:end] for start, end in pairwise(values.offsets.to_pylist())]
    if values.items.null_count:
        found = [[pair for pair in one if pair[1] is not None] for one in found]
    if values.null_count:
        return [one if valid else None for one, valid in zip(found, values.is_valid().to_pylist(), strict=True)]
    return found
