"""An HTTP event's headers, straight to the header block that stores it.

The short cut of `receive`: what the names say is read once for all events that have the same ones, and no event is made
in between. Whatever needs a closer look (percent-encoding, quotes, other alphabets, numbers as attributes, any fault at
all) is declined, and the codecs read it and say what is wrong. Both ways lead to the same message; property tests hold
them to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from headrace.core.event import json_format
from headrace.core.event.event import MOST_ATTRIBUTES, is_media_type, is_name, is_time
from headrace.core.event.http_codec import is_structured, travels
from headrace.core.event.nats_codec import MSG_ID, ascii_msg_id

# Printable ASCII that the HTTP binding leaves as it is: no blank, no quote, no percent sign.
_PLAIN = bytes(set(range(0x21, 0x7F)) - set(b'"%'))
_PRINTABLE = bytes(range(0x20, 0x7F))
_MSG_ID = MSG_ID.encode()
_VERSIONS = (b"1.0", b"0.3")
_REQUIRED = frozenset((b"ce-specversion", b"ce-id", b"ce-source", b"ce-type"))
# Names and types that are asked for come from strangers: remembered, but neither without end nor of any length. Who
# sends ever new shapes pays for each as much again as for all else that is read of an event.
_REMEMBERED = 1024
_MOST_SHAPES = 128
_MOST_NAMES = 32
_LONGEST = 128


class Kind(Enum):
    """What a header's name says of it."""

    IGNORED = "ignored"
    ATTRIBUTE = "attribute"
    CONTENT_TYPE = "content type"
    TRAVELS = "travels"
    DECLINED = "declined"


class Shape(NamedTuple):
    """What headers with certain names, in a certain order, are made of.

    Attributes:
        attributes: picks the values of attributes, which may hold plain characters only.
        travelling: the names of other headers that are stored.
        stored: picks all values that are stored, for `lines`.
    """

    attributes: Callable[[Mapping[bytes, bytes]], tuple[bytes, ...]]
    travelling: tuple[bytes, ...]
    stored: Callable[[Mapping[bytes, bytes]], tuple[bytes, ...]]
    lines: bytes


def stored_block(headers: Iterable[tuple[bytes, bytes]], claim: bytes = b"") -> bytes | None:
    """The header block of the NATS message for these headers, names in lower case; None: have the codecs read them.

    Args:
        claim: which delivery it is, proven; empty for what a producer sends.
    """
    given = tuple(headers)
    fields = dict(given)
    return block_of(fields, claim) if len(fields) == len(given) else None


def block_of(fields: Mapping[bytes, bytes], claim: bytes = b"") -> bytes | None:
    """The same for headers of which no two have the same name."""
    names = tuple(fields)
    # Producers send events of a few shapes.
    shape = (
        _shape(names) if len(names) <= _MOST_NAMES and max(map(len, names), default=0) <= _LONGEST else shape_of(names)
    )
    if shape is None or fields[b"ce-specversion"] not in _VERSIONS:
        return None
    attributes = shape.attributes(fields)
    # An empty attribute; characters that are more, or less, than they seem.
    if not all(attributes) or b"".join(attributes).translate(None, _PLAIN):
        return None
    for name in shape.travelling:
        value = fields[name]
        if value.translate(None, _PRINTABLE) or value != value.strip():
            return None
    content_type, time = fields.get(b"content-type"), fields.get(b"ce-time")
    if content_type is not None and (len(content_type) > _LONGEST or not _is_plain_type(content_type)):
        return None
    if time is not None and not is_time(time.decode()):
        return None
    return shape.lines % (ascii_msg_id(fields[b"ce-source"], fields[b"ce-id"], claim), *shape.stored(fields))


def stored_structured(
    body: bytes, headers: Iterable[tuple[bytes, bytes]], claim: bytes = b""
) -> tuple[bytes, bytes] | None:
    """The same for an event in structured mode: its header block, and its data as they were written.

    Args:
        headers: of the request, for what travels with the event.
    """
    found = json_format.plain_members(body)
    if found is None:
        return None
    attributes, data = found
    lines = [(_header(name), value.encode()) for name, value in attributes]
    lines += [header for header in headers if len(header[0]) <= _LONGEST and _travels(header[0])]
    block = stored_block(lines, claim)
    return None if block is None else (block, data)


def shape_of(names: tuple[bytes, ...]) -> Shape | None:
    """The shape of headers with these names, none twice; None when one of them needs a closer look, or is missing."""
    kinds = {name: kind_of(name) for name in names}
    stored = [name for name, kind in kinds.items() if kind is not Kind.IGNORED]
    if not _REQUIRED.issubset(names) or Kind.DECLINED in kinds.values() or len(stored) > MOST_ATTRIBUTES:
        return None
    lines = b"".join([b"%b: %%b\r\n" % name.replace(b"%", b"%%") for name in stored])
    return Shape(
        itemgetter(*[name for name in stored if kinds[name] is Kind.ATTRIBUTE]),
        tuple(name for name in stored if kinds[name] is Kind.TRAVELS),
        itemgetter(*stored),
        b"NATS/1.0\r\n%b: %%b\r\n%b\r\n" % (_MSG_ID, lines),
    )


_shape = lru_cache(_MOST_SHAPES)(shape_of)


def kind_of(name: bytes) -> Kind:
    if name[:3] == b"ce-":
        return Kind.ATTRIBUTE if len(name) <= _LONGEST and _is_plain_name(name) else Kind.DECLINED
    if name == b"content-type":
        return Kind.CONTENT_TYPE
    return Kind.TRAVELS if travels(name) else Kind.IGNORED


_travels = lru_cache(_REMEMBERED)(travels)


@lru_cache(_REMEMBERED)
def _header(name: str) -> bytes:
    return b"content-type" if name == "datacontenttype" else f"ce-{name}".encode()


def _is_plain_name(name: bytes) -> bool:
    attribute = name[3:].decode("latin-1")
    # The first two may not come as headers, and the third means something else in version 0.3.
    return is_name(attribute) and attribute not in ("datacontenttype", "datacontentencoding")


@lru_cache(_REMEMBERED)
def _is_plain_type(value: bytes) -> bool:
    text = value.decode("latin-1")
    return is_media_type(text) and not text.lower().startswith("application/cloudevents") and not is_structured(text)
