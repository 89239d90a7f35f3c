"""A stored event's header block, straight to the header lines of the POST that hands it on.

The short way of `forward`: one pass over the block and no event in between, for events as `headrace.receive` stores
them. Whatever needs a closer look (escapes, quotes, other alphabets, structured mode, any fault at all) is declined,
and the codecs read it. Both ways lead to the same lines in the same order; a property test holds them to it.

Pure. Called by `headrace.forward` once per event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from headrace.core.event.delivery_claim import HOPS
from headrace.core.event.event import is_name
from headrace.core.event.http_codec import travels
from headrace.core.event.value_patterns import PASSING, TIME, TYPE
from headrace.core.nats.nats_wire.headers import PLAIN_START

# A producer sends events of a few shapes. Shapes beyond these, at a millisecond each, go the long way.
MOST_SHAPES = 16
_MOST_NAMES = 32
_LONGEST_NAME = 64
_REMEMBERED = 256

# Possessive, as those of `value_patterns`: characters that percent-decoding and encoding leave as they are; U+0020 is
# the one common escape.
_VALUE = rb"(?:[\x21\x23\x24\x26-\x7e]++|%20)++"
_ATTRIBUTES = {b"ce-specversion": rb"1\.0", b"ce-time": TIME}
_REQUIRED = frozenset((b"ce-specversion", b"ce-id", b"ce-source", b"ce-type"))


@dataclass(frozen=True, slots=True)
class _Shape:
    """The pattern of blocks with certain names, the order in which their lines are posted, and the group of the hops.

    Attributes:
        hops: 0 for blocks without hops.
    """

    pattern: re.Pattern[bytes]
    order: tuple[int, ...]
    hops: int


class PostedLines:
    """Reads the blocks of one consumer, which look alike: the shape of the last one is tried first."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[bytes, ...], _Shape | None] = {}
        self._last: _Shape | None = None

    def of(self, block: bytes) -> tuple[bytes, int] | None:
        """The lines `name: value` of this header block, each with its line end, without that of the hops, and the
        number of hops; None: have the codecs read it."""
        shape = self._last
        if shape is None or (found := shape.pattern.fullmatch(block)) is None:
            shape = self._shape_of(block)
            if shape is None or (found := shape.pattern.fullmatch(block)) is None:
                return None
            self._last = shape
        return b"".join(found.group(*shape.order)), int(found[shape.hops][_BEFORE_HOPS:]) if shape.hops else 0

    def _shape_of(self, block: bytes) -> _Shape | None:
        names = tuple([line.partition(b":")[0] for line in block[len(PLAIN_START) : -4].split(b"\r\n")])
        if names not in self._shapes:
            if len(self._shapes) >= MOST_SHAPES or len(names) > _MOST_NAMES or max(map(len, names)) > _LONGEST_NAME:
                return None
            self._shapes[names] = _shape(names)
        return self._shapes[names]


@lru_cache(_REMEMBERED)
def _shape(names: tuple[bytes, ...]) -> _Shape | None:
    """The shape of blocks with these names in this order; None when one of them needs a closer look."""
    if len(set(names)) < len(names) or not _REQUIRED.issubset(names):
        return None
    pattern, kinds = re.escape(PLAIN_START), []
    for name in names:
        line = _line(name)
        if line is None:
            return None
        kind, value = line
        # Dropped lines get a group, too, but nothing refers to it.
        pattern += rb"(%b: %b\r\n)" % (re.escape(name), value)
        kinds.append(kind)
    # As the codecs do it: attributes, then the content type, then the pass-through headers.
    order = [number for wanted in _POSTED for number, kind in enumerate(kinds, 1) if kind == wanted]
    hops = kinds.index("hops") + 1 if "hops" in kinds else 0
    return _Shape(re.compile(pattern + rb"\r\n"), tuple(order), hops)


_POSTED = ("attribute", "type", "passing")
_BEFORE_HOPS = len(HOPS + b": ")


def _line(name: bytes) -> tuple[str, bytes] | None:
    """The kind of a line with that name, and the pattern of its value; None: the line is not for this way."""
    if name == HOPS:
        return "hops", rb"[0-9]{1,3}"
    if name.lower().startswith(b"nats-"):
        return "dropped", rb"[^\r\n]*+"
    if name == b"content-type":
        return "type", TYPE
    if name.startswith(b"ce-"):
        attribute = name[3:].decode("latin-1")
        if not is_name(attribute) or attribute == "datacontenttype":
            return None
        return "attribute", _ATTRIBUTES.get(name, _VALUE)
    return ("passing", PASSING) if travels(name) else None
