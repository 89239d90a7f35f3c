"""Which column of a frame plays which part in a message. Pure.

This is the inverse of the reader's columns: a frame that was read can be written again. Columns that only a stored
message has (stream, sequence, timestamp) are left out; other columns of an event are extension attributes, by their
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.core.errors import Misconfigured
from headrace.core.event.event import is_name
from pyspark_jetstream.writing.options import WriteOptions

MSG_ID = "msg_id"
NATS_SUBJECT = "nats_subject"
ERROR = "error"
STORED_ONLY = frozenset(("stream", "sequence", "timestamp"))

_MAP = ("map<string,string>",)
_TEXT = ("string",)
_BYTES = ("binary", "string")
_TIME = ("timestamp", "string")
# The types that CloudEvents has, too; all are written as their canonical strings.
_SCALARS = ("string", "boolean", "tinyint", "smallint", "int", "bigint", "timestamp", "binary")
_REQUIRED = ("id", "source", "type")
_ATTRIBUTES = {
    "id": _TEXT,
    "source": _TEXT,
    "type": _TEXT,
    "subject": _TEXT,
    "time": _TIME,
    "datacontenttype": _TEXT,
    "dataschema": _TEXT,
    "specversion": _TEXT,
}
_MESSAGE_PARTS = {"subject": _TEXT, "headers": _MAP, "data": _BYTES, MSG_ID: _TEXT}
_EVENT_PARTS = {
    "extensions": _MAP,
    "headers": _MAP,
    "data": _BYTES,
    MSG_ID: _TEXT,
    NATS_SUBJECT: _TEXT,
    ERROR: _TEXT,
}


@dataclass(frozen=True, slots=True)
class Parts:
    """The positions of columns.

    Attributes:
        attributes: those of an event, by name; empty for messages.
        others: those with the names of the constants above, and `subject`, `headers`, `extensions`, `data`.
    """

    attributes: Mapping[str, int]
    others: Mapping[str, int]


def parts(columns: Iterable[tuple[str, str]], options: WriteOptions) -> Parts:
    """The parts of a frame's columns, given with their types as Spark's `simpleString` writes them.

    Raises:
        Misconfigured: a column can't be written, or a part is missing.
    """
    found = _event_parts(columns) if options.cloudevents else _message_parts(columns)
    subject = NATS_SUBJECT if options.cloudevents else "subject"
    if not options.subject and subject not in found.others:
        raise Misconfigured(
            f"nothing says where to: give option subject or channel, or a column {subject}", field="subject"
        )
    return found


def _message_parts(columns: Iterable[tuple[str, str]]) -> Parts:
    others = {}
    for at, (name, kind) in enumerate(columns):
        if name in STORED_ONLY:
            continue
        if name not in _MESSAGE_PARTS:
            raise _unknown(name, f"messages have the columns {', '.join(_MESSAGE_PARTS)}")
        _check(name, kind, _MESSAGE_PARTS[name])
        others[name] = at
    if "data" not in others:
        raise Misconfigured("there is no column data: select what is to be sent as data", field="data")
    return Parts({}, others)


def _event_parts(columns: Iterable[tuple[str, str]]) -> Parts:
    attributes: dict[str, int] = {}
    others: dict[str, int] = {}
    for at, (name, kind) in enumerate(columns):
        if name in STORED_ONLY:
            continue
        if name in _EVENT_PARTS:
            _check(name, kind, _EVENT_PARTS[name])
            others[name] = at
        elif name in _ATTRIBUTES or is_name(name):
            _check(name, kind, _ATTRIBUTES.get(name, _SCALARS))
            attributes[name] = at
        else:
            raise _unknown(name, "an attribute of an event has a name of the letters a-z and digits only")
    missing = [name for name in _REQUIRED if name not in attributes]
    if missing:
        raise Misconfigured(f"there is no column {missing[0]}: every event needs id, source and type", field=missing[0])
    return Parts(attributes, others)


def _check(name: str, kind: str, kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        raise Misconfigured(
            f"column {name} is a {kind}: it has to be a {' or a '.join(kinds)}; cast it, or make it JSON by to_json",
            field=name,
        )


def _unknown(name: str, known: str) -> Misconfigured:
    return Misconfigured(f"column {name!r} can't be written: {known}; drop or rename it", field=name)
