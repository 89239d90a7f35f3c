"""A whole POST as it came from the socket, straight to the header block that stores its event.

The short way's reader. One pass over the head, by a pattern of its own for each shape of head, is the parsing and the
validation in one; there is no list of headers in between. It knows less than a parser, and takes only what can be read
in one way: HTTP/1.1, alone in its bytes, each name once, one blank before each value, a length, nothing coded, nothing
expected. Everything else is declined, and goes by the parser and the codecs. Both ways lead to the same message;
property tests hold them to it.

Pure. Called by `headrace.receive.short_way`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from headrace.core.event import stored_block
from headrace.core.event.delivery_claim import CLAIM, Claims
from headrace.core.event.nats_codec import ascii_msg_id
from headrace.core.event.stored_block import HeaderKind
from headrace.core.event.value_patterns import PASSING, TIME, TOKEN, TYPE
from headrace.core.fast import new_tuple

# A shape costs a millisecond once, or two with long names. Shapes beyond these go the parser's way.
MOST_SHAPES = 256
MOST_NAMES = 32
MOST_NAME_BYTES = 1024
LONGEST_HEAD = 8 * 1024
_END = b"\r\n\r\n"
# Clients write one of these in the head of every event. Few other heads have one, so those others take no place
# among the shapes.
_BINARY = b"pecversion: "
_STRUCTURED = b": application/cloudevents+json"
_NAME = re.compile(TOKEN)
# These tell how a message goes on, where it ends or what it truly is: the parser and the story judge that.
_DECLINED = frozenset(
    (
        *(b"transfer-encoding", b"content-encoding", b"trailer", b"expect", b"upgrade", b"http2-settings"),
        b"proxy-connection",
    )
)
_NAMED_VALUES = {
    b"content-length": rb"(?:0|[1-9]\d{0,8}+)",
    b"connection": rb"(?i:keep-alive)",
    b"host": rb"[\w.:-]++",
    b"ce-specversion": rb"(?:1\.0|0\.3)",
    b"ce-time": TIME,
}
_VALUES = {
    # Characters that percent-decoding leaves as they are, and that need no quotes.
    HeaderKind.ATTRIBUTE: rb"[\x21\x23\x24\x26-\x7e]++",
    HeaderKind.CONTENT_TYPE: rb"(?=[^\r]{1,128}\r)" + TYPE,
    HeaderKind.TRAVELS: PASSING,
    HeaderKind.IGNORED: PASSING,
}
_STRUCTURED_TYPE = rb"(?i:application/cloudevents\+json(?:; ?charset=utf-8)?)"
_START = rb"POST (/[a-z0-9./-]*+) HTTP/1\.1\r\n"


class WholePost(NamedTuple):
    """A POST: its address, the message to store, the delivery that it is, if that is proven, and whose it is."""

    host: bytes
    url: bytes
    block: bytes
    data: bytes
    claim: bytes
    authorization: bytes


class _Shape(NamedTuple):
    """The pattern of heads with certain names, and the group of each value.

    Attributes:
        length, host: the groups of these values.
        identity: in binary mode, the groups of ce-source and ce-id.
        stored: in binary mode, the groups of all values that are stored, for `layout`.
        layout: of the block; empty in structured mode.
        travelling: in structured mode, names and groups of the headers that are stored.
        claim, authorization: the groups of these values; 0 for none.
    """

    pattern: re.Pattern[bytes]
    length: int
    host: int
    identity: tuple[int, ...]
    stored: tuple[int, ...]
    layout: bytes
    travelling: tuple[tuple[bytes, int], ...]
    claim: int
    authorization: int


class WholePosts:
    """Reads the POSTs of one process, of which most look alike: the shape of the last one is tried first."""

    def __init__(self, claims: Claims, declined: Collection[bytes] = ()) -> None:
        """Args:
        declined: further headers, in lower case, that the story must see.
        """
        self._claims = claims
        self._declined = _DECLINED.union(declined)
        self._shapes: dict[tuple[bytes, ...], _Shape | None] = {}
        self._last: _Shape | None = None

    def match(self, data: bytes) -> WholePost | int | None:
        """Read these bytes, if they are one whole POST with an event.

        Returns:
            A number: so many bytes of the body are still to come. None: have the parser read it.
        """
        shape = self._last
        if shape is None or (found := shape.pattern.match(data)) is None:
            shape = self._shape_of(data)
            if shape is None or (found := shape.pattern.match(data)) is None:
                return None
            self._last = shape
        end = found.end()
        lacks = int(found[shape.length]) + end - len(data)
        if lacks or end > LONGEST_HEAD:
            return lacks if lacks > 0 and end <= LONGEST_HEAD else None
        claim = self._claims.proven(found[shape.claim]) if shape.claim else b""
        body = data[end:]
        if shape.layout:
            source, event_id = found.group(*shape.identity)
            block = shape.layout % (ascii_msg_id(source, event_id, claim), *found.group(*shape.stored))
        else:
            travelling = [(name, found[group]) for name, group in shape.travelling]
            stored = stored_block.of_structured(body, travelling, claim)
            if stored is None:
                return None
            block, body = stored
        authorization = found[shape.authorization] if shape.authorization else b""
        return new_tuple(WholePost, (found[shape.host], found[1], block, body, claim, authorization))

    def sender(self, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Host, URL and authorization of a POST whose head `match` has just read, while its body is still to come."""
        shape = self._last
        if shape is None or (found := shape.pattern.match(data)) is None:
            raise RuntimeError("match comes first")
        return found[shape.host], found[1], found[shape.authorization] if shape.authorization else b""

    def _shape_of(self, data: bytes) -> _Shape | None:
        end = data.find(_END, 0, LONGEST_HEAD)
        if end < 0 or (data.find(_BINARY, 0, end) < 0 and data.find(_STRUCTURED, 0, end) < 0):
            return None
        names = tuple([line.partition(b":")[0] for line in data[:end].split(b"\r\n")[1:]])
        if names not in self._shapes:
            most = len(self._shapes) >= MOST_SHAPES or len(names) > MOST_NAMES
            if most or sum(map(len, names)) > MOST_NAME_BYTES:
                return None
            self._shapes[names] = _shape(names, self._declined)
        return self._shapes[names]


def _shape(names: tuple[bytes, ...], declined: frozenset[bytes]) -> _Shape | None:
    """The shape of heads with these names, as written, in this order; None: they are not for this way."""
    lower = tuple([name.lower() for name in names])
    # A name that is no token is a folded line, or hides another name from us or from a later reader.
    if not all(map(_NAME.fullmatch, names)) or len(set(lower)) < len(lower) or not declined.isdisjoint(lower):
        return None
    if not {b"content-length", b"host"}.issubset(lower):
        return None
    kinds = {name: stored_block.kind_of(name) for name in lower}
    of_event = {HeaderKind.ATTRIBUTE, HeaderKind.DECLINED}
    structured = b"content-type" in kinds and of_event.isdisjoint(kinds.values())
    layout = b"" if structured else stored_block.layout(lower)
    if layout is None:
        return None
    values = _NAMED_VALUES | ({b"content-type": _STRUCTURED_TYPE} if structured else {})
    patterns = [values.get(name) or _VALUES[kinds[name]] for name in lower]
    lines = [rb"%b: (%b)\r\n" % (re.escape(name), value) for name, value in zip(names, patterns, strict=True)]
    # The first group is the URL's.
    place = {name: number for number, name in enumerate(lower, 2)}
    return _Shape(
        re.compile(_START + b"".join(lines) + rb"\r\n"),
        place[b"content-length"],
        place[b"host"],
        () if structured else (place[b"ce-source"], place[b"ce-id"]),
        tuple(place[name] for name in lower if kinds[name] is not HeaderKind.IGNORED),
        layout,
        tuple((name, place[name]) for name in lower if kinds[name] is HeaderKind.TRAVELS),
        place.get(CLAIM, 0),
        place.get(b"authorization", 0),
    )
