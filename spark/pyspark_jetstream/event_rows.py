"""Stored messages to rows of CloudEvents: attributes as columns, and a message that is no event as a row with an error.

The product's codec decides whether a message is an event. Most messages need not pass through it one by one: those with
the same header names and plain values are read as columns (`event_columns`), and a property test holds both ways to the
same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event import nats_codec
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.nats.nats_wire import Headers
from pyspark_jetstream.client.messages import Messages
from pyspark_jetstream.event_columns import Plain, plain_events
from pyspark_jetstream.event_times import microseconds
from pyspark_jetstream.header_maps import map_array
from pyspark_jetstream.rows import COLUMNS as MESSAGE_COLUMNS

DROPMALFORMED = "DROPMALFORMED"
FAILFAST = "FAILFAST"

_TIMESTAMP = pa.timestamp("us", "UTC")
# Columns of the message itself, which also a message without an event has.
_PLACE = ("stream", "sequence", "timestamp", "headers")
_COLUMNS = frozenset(
    ("id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "schemaurl", "specversion")
)


def event_batch(messages: Messages, stream: str, schema: pa.Schema, parse_mode: str) -> pa.RecordBatch:
    """Rows of the columns of `schema.EVENT_COLUMNS` that this Arrow schema names.

    Raises:
        InvalidEvent: in mode FAILFAST, at the first message that claims to be an event and is none.
    """
    plain = plain_events(messages)
    covered = [at for group in plain for at in group.positions]
    rest = sorted(set(range(len(messages))).difference(covered)) if len(covered) < len(messages) else []
    others = _Others(messages, rest, stream, parse_mode)
    places = [*covered, *others.positions]
    order = None if places == sorted(places) else pa.array(sorted(range(len(places)), key=places.__getitem__))
    kept = messages if len(places) == len(messages) else messages.chosen(sorted(places))

    def column(name: str) -> pa.Array:
        if name in _PLACE:
            return MESSAGE_COLUMNS[name](kept, stream)
        parts = [*(_of_plain(group, name) for group in plain), others.column(name)]
        found = pa.concat_arrays([part for part in parts if len(part)]) if places else parts[-1]
        return found if order is None else found.take(order)

    return pa.RecordBatch.from_arrays([column(field.name).cast(field.type) for field in schema], schema=schema)


def _of_plain(group: Plain, name: str) -> pa.Array:
    return pa.nulls(len(group.positions), pa.string()) if name == "error" else group.column(name)


class _Others:
    """The messages that the codec has to read.

    Attributes:
        positions: their places among the messages; in mode DROPMALFORMED, of events only.
    """

    def __init__(self, messages: Messages, positions: Sequence[int], stream: str, parse_mode: str) -> None:
        read = [(at, _event(messages, at, stream)) for at in positions]
        if parse_mode == FAILFAST:
            _fail_on_fault(messages, stream, read)
        if parse_mode == DROPMALFORMED:
            read = [(at, one) for at, one in read if isinstance(one, Event)]
        self.positions = [at for at, _ in read]
        self._event = [one for _, one in read]
        self._payloads = messages.payloads

    def column(self, name: str) -> pa.Array:
        match name:
            case "data":
                pairs = zip(self.positions, self._event, strict=True)
                data = [one.data if isinstance(one, Event) else self._payloads[at] for at, one in pairs]
                return pa.array(data, pa.binary())
            case "extensions":
                return self._extensions()
            case "error":
                return pa.array([None if isinstance(one, Event) else str(one) for one in self._event], pa.string())
            case "time":
                texts = self._attribute("time")
                return pa.array([None if text is None else microseconds(text) for text in texts], pa.int64()).cast(
                    _TIMESTAMP
                )
            case "dataschema":
                old, new = self._attribute("schemaurl"), self._attribute("dataschema")
                return pa.array([_schema(*one) for one in zip(self._event, old, new, strict=True)], pa.string())
            case _:
                return pa.array(self._attribute(name), pa.string())

    def _attribute(self, name: str) -> list[str | None]:
        return [one.attributes.get(name) if isinstance(one, Event) else None for one in self._event]

    def _extensions(self) -> pa.Array:
        """The extensions; null where there is no event."""
        found = [_extensions(one) if isinstance(one, Event) else {} for one in self._event]
        keys = [key for one in found for key in one]
        values = [value for one in found for value in one.values()]
        maps = map_array(list(map(len, found)), keys, values)
        missing = [not isinstance(one, Event) for one in self._event]
        if not any(missing):
            return maps
        return pa.MapArray.from_arrays(maps.offsets, maps.keys, maps.items, mask=pa.array(missing))


def _extensions(event: Event) -> dict[str, str]:
    columns = _COLUMNS if event.specversion == "0.3" else _COLUMNS - {"schemaurl"}
    if event.specversion == "0.3":
        columns -= {"dataschema"}
    return {name: value for name, value in event.attributes.items() if name not in columns}


def _schema(one: Event | InvalidEvent, old: str | None, new: str | None) -> str | None:
    """The `dataschema`, which CloudEvents 0.3 calls `schemaurl`."""
    return old if isinstance(one, Event) and one.specversion == "0.3" else new


def _event(messages: Messages, at: int, stream: str) -> Event | InvalidEvent:
    subject = messages.subjects[at].decode("utf-8", "replace")
    message = NatsMessage(subject, Headers(messages.blocks[at]), messages.payloads[at])
    try:
        return nats_codec.from_nats(message, stream=stream, sequence=messages.sequences[at])
    except InvalidEvent as error:
        return error


def _fail_on_fault(messages: Messages, stream: str, read: Sequence[tuple[int, Event | InvalidEvent]]) -> None:
    for at, one in read:
        if isinstance(one, InvalidEvent):
            place = f"message {messages.sequences[at]} of stream {stream}"
            raise InvalidEvent(
                Fault(place, f"{one} (parseMode PERMISSIVE gives it a row, DROPMALFORMED none)")
            ) from one
