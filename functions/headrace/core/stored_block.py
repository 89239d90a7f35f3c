"""An HTTP event's headers, straight to the header block that stores it.

The short cut of `receive`: one pass over the headers and no event in between, for events as most producers send them.
Whatever needs a closer look (percent-encoding, quotes, other alphabets, structured mode, any fault at all) is declined,
and the codecs read it and say what is wrong. Both ways lead to the same headers; a property test holds them to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from headrace.core.event import MOST_ATTRIBUTES, is_media_type, is_name, is_time
from headrace.core.http_codec import is_structured, travels
from headrace.core.nats_codec import MSG_ID, msg_id

# Printable ASCII that the HTTP binding leaves as it is: no blank, no quote, no percent sign.
_PLAIN = bytes(set(range(0x21, 0x7F)) - set(b'"%'))
_PRINTABLE = bytes(range(0x20, 0x7F))
_VERSIONS = (b"1.0", b"0.3")
# Names and types that are asked for come from strangers: remembered, but neither without end nor of any length.
_REMEMBERED = 1024
_LONGEST = 128


def stored_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The header block of the NATS message for these headers, names in lower case; None: have the codecs read them."""
    seen: dict[bytes, bytes] = {}
    for name, value in headers:
        if name[:3] == b"ce-":
            if not value or name in seen or value.translate(None, _PLAIN):
                return None
            if len(name) > _LONGEST or not _is_plain_name(name):
                return None
        elif name == b"content-type":
            if name in seen or len(value) > _LONGEST or not _is_plain_type(value):
                return None
        elif not (_travels(name) if len(name) <= _LONGEST else travels(name)):
            continue
        elif name in seen or value.translate(None, _PRINTABLE) or value != value.strip():
            return None
        seen[name] = value
    identity, source = seen.get(b"ce-id"), seen.get(b"ce-source")
    if len(seen) > MOST_ATTRIBUTES:
        return None
    if identity is None or source is None or b"ce-type" not in seen or seen.get(b"ce-specversion") not in _VERSIONS:
        return None
    time = seen.get(b"ce-time")
    if time is not None and not is_time(time.decode()):
        return None
    lines = b"\r\n".join([b": ".join(line) for line in seen.items()])
    own = f"NATS/1.0\r\n{MSG_ID}: {msg_id(source.decode(), identity.decode())}\r\n"
    return b"%b%b\r\n\r\n" % (own.encode(), lines)


@lru_cache(_REMEMBERED)
def _is_plain_name(name: bytes) -> bool:
    attribute = name[3:].decode("latin-1")
    # The first two may not come as headers, and the third means something else in version 0.3.
    return is_name(attribute) and attribute not in ("datacontenttype", "datacontentencoding")


@lru_cache(_REMEMBERED)
def _is_plain_type(value: bytes) -> bool:
    text = value.decode("latin-1")
    return is_media_type(text) and not text.lower().startswith("application/cloudevents") and not is_structured(text)


@lru_cache(_REMEMBERED)
def _travels(name: bytes) -> bool:
    return travels(name)
