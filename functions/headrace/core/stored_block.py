"""An HTTP event's headers, straight to the header block that stores it.

The short cut of `receive`: one pass over the headers and no event in between, for events as most producers send them.
Whatever needs a closer look (percent-encoding, quotes, other alphabets, numbers as attributes, any fault at all) is
declined, and the codecs read it and say what is wrong. Both ways lead to the same message; property tests hold them to
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from headrace.core import json_format
from headrace.core.event import MOST_ATTRIBUTES, is_media_type, is_name, is_time
from headrace.core.http_codec import is_structured, travels
from headrace.core.nats_codec import MSG_ID, ascii_msg_id

# Printable ASCII that the HTTP binding leaves as it is: no blank, no quote, no percent sign.
_PLAIN = bytes(set(range(0x21, 0x7F)) - set(b'"%'))
_PRINTABLE = bytes(range(0x20, 0x7F))
_MSG_ID = MSG_ID.encode()
_VERSIONS = (b"1.0", b"0.3")
# What a header's name says of it. Plain numbers: they are looked at for every header of every event.
_IGNORED, _ATTRIBUTE, _CONTENT_TYPE, _TRAVELS, _DECLINED = range(5)
# Names and types that are asked for come from strangers: remembered, but neither without end nor of any length.
_REMEMBERED = 1024
_LONGEST = 128


def stored_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The header block of the NATS message for these headers, names in lower case; None: have the codecs read them."""
    seen: dict[bytes, bytes] = {}
    attributes: list[bytes] = []
    count = 0
    for name, value in headers:
        kind = _kind(name) if len(name) <= _LONGEST else _kind_of(name)
        if kind == _IGNORED:
            continue
        if kind == _ATTRIBUTE:
            attributes.append(value)
        elif kind == _TRAVELS:
            if value.translate(None, _PRINTABLE) or value != value.strip():
                return None
        elif kind == _DECLINED or len(value) > _LONGEST or not _is_plain_type(value):
            return None
        count += 1
        seen[name] = value
    identity, source = seen.get(b"ce-id"), seen.get(b"ce-source")
    if identity is None or source is None or b"ce-type" not in seen or seen.get(b"ce-specversion") not in _VERSIONS:
        return None
    # Twice the same name; an empty attribute; characters that are more, or less, than they seem.
    if (
        count != len(seen)
        or count > MOST_ATTRIBUTES
        or not all(attributes)
        or b"".join(attributes).translate(None, _PLAIN)
    ):
        return None
    time = seen.get(b"ce-time")
    if time is not None and not is_time(time.decode()):
        return None
    lines = b"\r\n".join([b"%b: %b" % line for line in seen.items()])
    return b"NATS/1.0\r\n%b: %b\r\n%b\r\n\r\n" % (_MSG_ID, ascii_msg_id(source, identity), lines)


def stored_structured(body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes] | None:
    """The same for an event in structured mode: its header block, and its data as they were written.

    Args:
        headers: of the request, for what travels with the event.
    """
    found = json_format.plain_members(body)
    if found is None:
        return None
    attributes, data = found
    lines = [(_header(name), value.encode()) for name, value in attributes]
    lines += [header for header in headers if len(header[0]) <= _LONGEST and _kind(header[0]) == _TRAVELS]
    block = stored_block(lines)
    return None if block is None else (block, data)


def _kind_of(name: bytes) -> int:
    if name[:3] == b"ce-":
        return _ATTRIBUTE if len(name) <= _LONGEST and _is_plain_name(name) else _DECLINED
    if name == b"content-type":
        return _CONTENT_TYPE
    return _TRAVELS if travels(name) else _IGNORED


_kind = lru_cache(_REMEMBERED)(_kind_of)


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
