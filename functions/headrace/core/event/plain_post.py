"""A POST as it came from the socket, straight to the header block that stores its event.

The shortest cut of `receive`: one pass over the head, by a pattern of its own for each shape of head, which is also the
validation; no parser, and no list of headers in between. It knows less than a parser, and takes only what can be read
in one way: HTTP/1.1, whole, alone in its bytes, each name once, one blank before each value, a length, nothing coded,
nothing expected. Whatever else comes is declined, and the parser reads it. Both ways lead to the same message; a
property test holds them to it.

Pure. Called by `headrace.receive`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from headrace.core.event.delivery_claim import CLAIM, Claims
from headrace.core.event.nats_codec import ascii_msg_id
from headrace.core.event.stored_block import Kind, kind_of, shape_of
from headrace.core.event.value_patterns import PASSING, TIME, TOKEN, TYPE

# Each costs a millisecond once, or two with long names. Who sends ever new ones goes the parser's way, and so does
# whatever is new then.
MOST_SHAPES = 256
MOST_NAMES = 32
MOST_NAME_BYTES = 1024
LONGEST_HEAD = 8 * 1024
_END = b"\r\n\r\n"
# In every event in binary mode, as clients write it, in structured ones never: the cheapest way to tell them apart.
_BINARY = b"pecversion: "
# What is asked for of every head.
_NAMED = (b"content-length", b"host", b"ce-source", b"ce-id")
_NAME = re.compile(TOKEN)
# What says how a message goes on, where it ends or what it is in truth, is the parser's and the long way's to judge.
_DECLINED = frozenset(
    (
        *(b"transfer-encoding", b"content-encoding", b"trailer", b"expect", b"upgrade", b"http2-settings"),
        *(b"proxy-connection", b"forwarded", b"k-original-host"),
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
    # What percent-decoding leaves as it is, and needs no quotes.
    Kind.ATTRIBUTE: rb"[\x21\x23\x24\x26-\x7e]++",
    Kind.CONTENT_TYPE: rb"(?=[^\r]{1,128}\r)" + TYPE,
    Kind.TRAVELS: PASSING,
    Kind.IGNORED: PASSING,
}
_START = rb"POST (/[a-z0-9./-]*+) HTTP/1\.1\r\n"
# Its own constructor takes half the time of the one written in Python.
_new = tuple.__new__


class Posted(NamedTuple):
    """What a plain POST says: to which address, what is to be stored, and as which delivery, if that is proven."""

    host: bytes
    url: bytes
    block: bytes
    body: bytes
    claim: bytes


class _Shape(NamedTuple):
    """How the heads with certain names look, and where in them is what.

    Attributes:
        named: the groups of content-length, host, ce-source and ce-id.
        stored: the groups of all values that are stored, for `lines`.
        claim: the group of the claim; 0 for none.
    """

    pattern: re.Pattern[bytes]
    named: tuple[int, ...]
    stored: tuple[int, ...]
    lines: bytes
    claim: int


class PlainPosts:
    """Reads the POSTs of one process, of which most look alike: the shape of the last one is tried first."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._shapes: dict[tuple[bytes, ...], _Shape | None] = {}
        self._last: _Shape | None = None

    def read(self, data: bytes) -> Posted | None:
        """What these bytes say, if they are one whole POST with an event in binary mode; None: have the parser see."""
        if data.endswith(_END):
            # A head whose body is on its way, as most that come here have to be left to the parser.
            return None
        shape = self._last
        if shape is None or (found := shape.pattern.match(data)) is None:
            shape = self._shape_of(data)
            if shape is None or (found := shape.pattern.match(data)) is None:
                return None
            self._last = shape
        length, host, source, event_id = found.group(*shape.named)
        end = found.end()
        body = data[end:]
        if end > LONGEST_HEAD or int(length) != len(body):
            return None
        claim = self._claims.proven(found[shape.claim]) if shape.claim else b""
        block = shape.lines % (ascii_msg_id(source, event_id, claim), *found.group(*shape.stored))
        return _new(Posted, (host, found[1], block, body, claim))

    def _shape_of(self, data: bytes) -> _Shape | None:
        if data.find(_BINARY, 0, LONGEST_HEAD) < 0:
            return None
        end = data.find(_END, 0, LONGEST_HEAD)
        if end < 0:
            return None
        names = tuple([line.partition(b":")[0] for line in data[:end].split(b"\r\n")[1:]])
        if names not in self._shapes:
            most = len(self._shapes) >= MOST_SHAPES or len(names) > MOST_NAMES
            if most or sum(map(len, names)) > MOST_NAME_BYTES:
                return None
            self._shapes[names] = _shape(names)
        return self._shapes[names]


def _shape(names: tuple[bytes, ...]) -> _Shape | None:
    """The shape of heads with these names, as they are written, in this order; None: nothing for this way."""
    lower = tuple([name.lower() for name in names])
    # A name that is no token is a folded line, or hides another name from us or from who comes after us.
    if not all(map(_NAME.fullmatch, names)) or len(set(lower)) < len(lower) or not _DECLINED.isdisjoint(lower):
        return None
    stored = shape_of(lower)
    if stored is None or not set(_NAMED).issubset(lower):
        return None
    lines = [rb"%b: (%b)\r\n" % (re.escape(name), _value(name.lower())) for name in names]
    # The first group is the URL's.
    place = {name: number for number, name in enumerate(lower, 2)}
    return _Shape(
        re.compile(_START + b"".join(lines) + rb"\r\n"),
        tuple(place[name] for name in _NAMED),
        tuple(place[name] for name in lower if kind_of(name) is not Kind.IGNORED),
        stored.lines,
        place.get(CLAIM, 0),
    )


def _value(name: bytes) -> bytes:
    return _NAMED_VALUES.get(name) or _VALUES[kind_of(name)]
