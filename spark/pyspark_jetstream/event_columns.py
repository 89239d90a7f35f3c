"""CloudEvents in binary mode as columns: many messages at a time, as long as they are plain.

Messages are plain when all have the same header names, every value is printable ASCII without quotes, and no rule of
CloudEvents is broken. Of plain messages only the percent-encoded values are looked at one by one; the codec takes all
others. Called by `event_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.event.event import MOST_ATTRIBUTES, is_media_type, is_name, is_value
from headrace.core.event.http_codec import decode_value
from pyspark_jetstream.client.messages import Messages
from pyspark_jetstream.header_maps import Uniform, uniform

# Columns with the name of their attribute; `time` and `datacontenttype` have rules of their own.
TEXTS = ("id", "source", "type", "subject", "dataschema", "specversion")
_CORE = frozenset((*TEXTS, "time"))
_PLAIN = bytes(set(range(0x20, 0x7F)) - set(b'"')) + b"\r\n"
# Times that Arrow reads as RFC 3339 does, in years that fit 64 bits of nanoseconds. The codec reads all others.
_TIME = (
    r"^(19[7-9]|20\d|21\d)\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?"
    r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)
_EPOCH = "1970-01-01T00:00:00Z"
_TIMESTAMP = pa.timestamp("us", "UTC")
# With more shapes than that in one chunk the codec is as fast.
_MOST_SHAPES = 64


class Plain:
    """Plain events of one shape.

    Attributes:
        positions: their places among the messages.
    """

    def __init__(
        self,
        positions: Sequence[int],
        payloads: Sequence[bytes],
        found: Uniform,
        at: _Attributes,
        undecoded: frozenset[int] = frozenset(),
    ) -> None:
        """Args:
        undecoded: lines whose values can't be decoded to the text of an attribute.
        """
        self.positions = positions
        self._payloads = payloads
        self._found = found
        self._at = at
        self._undecoded = undecoded

    @classmethod
    def of(cls, positions: Sequence[int], payloads: Sequence[bytes], found: Uniform) -> Plain | None:
        """None when only the codec can judge this shape."""
        attributes = _attributes(found.names)
        if attributes is None:
            return None
        decoded, undecoded = _decoded(found, attributes)
        return cls(positions, payloads, decoded, attributes, undecoded)

    def column(self, name: str) -> pa.Array:
        """One column of the events, in the order of the positions."""
        if name == "data":
            return pa.array(self._payloads, pa.binary())
        if name == "extensions":
            return self._extensions()
        if name == "datacontenttype":
            return self._values(self._at.content_type)
        if name == "time":
            return _times(self._values(self._at.names.get("time")))
        return self._values(self._at.names.get(name))

    def without(self, bad: set[int]) -> Plain:
        """The events without some rows, which are counted among the positions."""
        kept = [row for row in range(len(self.positions)) if row not in bad]
        width = len(self._found.names)
        lines = pa.array([row * width + at for row in kept for at in range(width)], pa.int32())
        found = Uniform(self._found.names, self._found.values.take(lines))
        return Plain([self.positions[row] for row in kept], [self._payloads[row] for row in kept], found, self._at)

    def faulty(self) -> set[int]:
        """The rows that break a rule, or that Arrow reads otherwise than the codec."""
        values = self._found.values
        bad = {line // len(self._found.names) for line in (*self._undecoded, *_where(pc.equal(values, "")))}
        bad.update(_where(pc.not_equal(self._values(self._at.names["specversion"]), "1.0")))
        if "time" in self._at.names:
            bad.update(_where(pc.invert(pc.match_substring_regex(self._values(self._at.names["time"]), _TIME))))
        if self._at.content_type is not None:
            types = self._values(self._at.content_type)
            wrong = [one for one in pc.unique(types).to_pylist() if not is_media_type(one)]
            if wrong:
                bad.update(_where(pc.is_in(types, pa.array(wrong, pa.string()))))
        return bad

    def has_times(self) -> bool:
        """Whether Arrow can read all times; it does not say which one it can't read, such as a 30th of February."""
        try:
            self.column("time")
        except pa.ArrowInvalid:
            return False
        return True

    def _values(self, at: int | None) -> pa.Array:
        """The values of one header; nulls where there is none."""
        count = len(self.positions)
        if at is None:
            return pa.nulls(count, pa.string())
        return self._found.values.take(_strided(at, len(self._found.names), _rounded(count)).slice(0, count))

    def _extensions(self) -> pa.Array:
        at = self._at.extensions
        count = len(self.positions)
        width, total = len(self._found.names), count * len(at)
        lines = _interleaved(tuple(at.values()), width, _rounded(count)).slice(0, total)
        keys = _repeated(tuple(at), _rounded(count)).slice(0, total)
        offsets = _strided(0, len(at), _rounded(count + 1)).slice(0, count + 1)
        return pa.MapArray.from_arrays(offsets, keys, self._found.values.take(lines))


class _Attributes:
    """The places of the attributes among the headers of a shape.

    Attributes:
        names: attributes with their headers' places.
        extensions: the attributes that have no column.
        content_type: the place of the content type.
    """

    def __init__(self, names: dict[str, int], content_type: int | None) -> None:
        self.names = names
        self.extensions = {name: at for name, at in names.items() if name not in _CORE}
        self.content_type = content_type


def plain_events(messages: Messages) -> list[Plain]:
    """The plain events among the messages, by their shapes."""
    blocks = messages.blocks
    if not b"".join(blocks).translate(None, _PLAIN):
        # The usual case: all messages are plain, and have the same headers.
        lines = uniform(blocks)
        if lines is not None:
            return _judged(Plain.of(range(len(blocks)), messages.payloads, lines))
    found = []
    for positions in _shapes(blocks):
        lines = uniform([blocks[at] for at in positions])
        if lines is not None:
            found += _judged(Plain.of(positions, [messages.payloads[at] for at in positions], lines))
    return found


def _judged(plain: Plain | None) -> list[Plain]:
    """The events that break no rule."""
    if plain is None:
        return []
    bad = plain.faulty()
    if bad:
        plain = plain.without(bad)
    return [plain] if len(plain.positions) and plain.has_times() else []


def _shapes(blocks: Sequence[bytes]) -> Iterable[Sequence[int]]:
    """The positions of plain blocks, grouped by their names; at most `_MOST_SHAPES` groups."""
    groups: dict[tuple[bytes, ...], list[int]] = {}
    for position, block in enumerate(blocks):
        if block.translate(None, _PLAIN):
            continue
        shape = tuple([line.partition(b":")[0] for line in block.split(b"\r\n")])
        known = groups.get(shape)
        if known is not None:
            known.append(position)
        elif len(groups) < _MOST_SHAPES:
            groups[shape] = [position]
    return groups.values()


@lru_cache(256)
def _attributes(names: tuple[str, ...]) -> _Attributes | None:
    """None for a shape that only the codec can judge."""
    lower = [name.lower() for name in names]
    attributes = {name[3:]: at for at, name in enumerate(lower) if name.startswith("ce-")}
    is_plain = (
        len(set(lower)) == len(lower)
        and len(attributes) < MOST_ATTRIBUTES
        and attributes.keys() >= {"specversion", "id", "source", "type"}
        and "datacontenttype" not in attributes
        and all(map(is_name, attributes))
    )
    content_type = lower.index("content-type") if "content-type" in lower else None
    return _Attributes(attributes, content_type) if is_plain else None


def _decoded(found: Uniform, at: _Attributes) -> tuple[Uniform, frozenset[int]]:
    """The attributes' values without percent-encoding, and the lines that can't be decoded."""
    is_encoded = pc.match_substring(found.values, "%")
    lines = _where(is_encoded)
    if not lines:
        return found, frozenset()
    width, attributes = len(found.names), frozenset(at.names.values())
    texts: list[str] = []
    undecoded: set[int] = set()
    # Many events share a source.
    decode = lru_cache(1024)(_decoded_value)
    for line, text in zip(lines, found.values.filter(is_encoded).to_pylist(), strict=True):
        value = decode(text) if line % width in attributes else text
        if value is None:
            undecoded.add(line)
        texts.append(text if value is None else value)
    values = pc.replace_with_mask(found.values, is_encoded, pa.array(texts, pa.string()))
    return Uniform(found.names, values), frozenset(undecoded)


def _decoded_value(text: str) -> str | None:
    try:
        value = decode_value(text)
    except UnicodeDecodeError:
        return None
    return value if is_value(value) else None


def _times(texts: pa.Array) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _TIMESTAMP)
    return texts.cast(pa.timestamp("ns", "UTC")).cast(_TIMESTAMP, safe=False)


def _where(mask: pa.Array) -> list[int]:
    positions: list[int] = pc.indices_nonzero(mask).to_pylist()
    return positions


def _rounded(count: int) -> int:
    """The count rounded up to a size that recurs, so that arrays for it are made once."""
    return 1 << (count - 1).bit_length() if count else 1


@lru_cache(256)
def _strided(first: int, step: int, count: int) -> pa.Array:
    return pa.array([first + step * at for at in range(count)], pa.int32())


@lru_cache(32)
def _interleaved(places: tuple[int, ...], width: int, count: int) -> pa.Array:
    return pa.array([row * width + at for row in range(count) for at in places], pa.int32())


@lru_cache(32)
def _repeated(names: tuple[str, ...], count: int) -> pa.Array:
    return pa.array(names * count, pa.string())
