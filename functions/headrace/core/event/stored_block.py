"""The header block of an event on the short way: which lines it has, and what they may say.

The names are read once for all events that have the same ones, and no event is made in between. Whatever needs
a closer look (percent-encoding, quotes, other alphabets, numbers as attributes, any fault at all) is declined, and the
codecs read it and say what is wrong. Both ways lead to the same block, which `nats_wire.header_block` writes for both;
property tests hold them to it.

Pure. Called by `headrace.core.event.whole_post`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import lru_cache

from headrace.core.event import json_format
from headrace.core.event.event import MOST_ATTRIBUTES, is_media_type, is_name, is_time
from headrace.core.event.http_codec import is_structured, travels
from headrace.core.event.nats_codec import MSG_ID, ascii_msg_id
from headrace.core.nats.nats_wire import header_block

# Printable ASCII that the HTTP binding leaves as it is: no blank, no quote, no percent sign.
_PLAIN = bytes(set(range(0x21, 0x7F)) - set(b'"%'))
_VERSIONS = (b"1.0", b"0.3")
_REQUIRED = frozenset((b"ce-specversion", b"ce-id", b"ce-source", b"ce-type"))
# Strangers choose names and types: they are remembered, but within bounds of number and length. A sender of ever new
# shapes pays for each as much again as for all else that is read of an event.
_REMEMBERED = 1024
_MOST_SHAPES = 128
_MOST_NAMES = 32
_LONGEST = 128


class HeaderKind(Enum):
    """The kind of a header, by its name."""

    IGNORED = "ignored"
    ATTRIBUTE = "attribute"
    CONTENT_TYPE = "content type"
    TRAVELS = "travels"
    DECLINED = "declined"


def layout(names: Iterable[bytes]) -> bytes | None:
    """The block of events whose headers have these names, none twice, with a `%b` for the message id and then one for
    each value that is stored, in order; None when a name needs a closer look, or one that every event has is missing.
    """
    kinds = {name: kind_of(name) for name in names}
    stored = [name.decode() for name, kind in kinds.items() if kind is not HeaderKind.IGNORED]
    if not _REQUIRED.issubset(kinds) or HeaderKind.DECLINED in kinds.values() or len(stored) > MOST_ATTRIBUTES:
        return None
    return header_block({MSG_ID: "%b"} | {name.replace("%", "%%"): "%b" for name in stored})


def of_structured(
    body: bytes, travelling: Iterable[tuple[bytes, bytes]], claim: bytes = b""
) -> tuple[bytes, bytes] | None:
    """The block of an event in structured mode, and its data as they were written; None: have the codecs read it.

    Args:
        travelling: the request's headers that travel with the event, their values printable and trimmed.
        claim: names the delivery, proven; empty for an event from a producer.
    """
    found = json_format.plain_members(body)
    if found is None:
        return None
    members, data = found
    fields = {_header(name): value.encode() for name, value in members}
    if len(fields) < len(members) or not _are_plain(fields):
        return None
    fields.update(travelling)
    names = tuple(fields)
    is_short = len(names) <= _MOST_NAMES and max(map(len, names)) <= _LONGEST
    lines = _layout(names) if is_short else layout(names)
    if lines is None:
        return None
    return lines % (ascii_msg_id(fields[b"ce-source"], fields[b"ce-id"], claim), *fields.values()), data


def kind_of(name: bytes) -> HeaderKind:
    """The kind of a header with that lower-case name."""
    if name[:3] == b"ce-":
        return HeaderKind.ATTRIBUTE if len(name) <= _LONGEST and _is_plain_name(name) else HeaderKind.DECLINED
    if name == b"content-type":
        return HeaderKind.CONTENT_TYPE
    return HeaderKind.TRAVELS if travels(name) else HeaderKind.IGNORED


_layout = lru_cache(_MOST_SHAPES)(layout)


def _are_plain(fields: dict[bytes, bytes]) -> bool:
    """May these be the values of attributes, each one plain characters?"""
    if fields.get(b"ce-specversion") not in _VERSIONS:
        return False
    content_type, time = fields.get(b"content-type"), fields.get(b"ce-time")
    if content_type is not None and (len(content_type) > _LONGEST or not _is_plain_type(content_type)):
        return False
    attributes = [value for name, value in fields.items() if name != b"content-type"]
    # An attribute is empty, or holds a character that the HTTP binding changes.
    if not all(attributes) or b"".join(attributes).translate(None, _PLAIN):
        return False
    return time is None or is_time(time.decode())


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
