"""Header blocks to Arrow maps: names as they were sent, and the first value of a name that comes twice.

Two ways lead to the same maps, and a property test holds them together: one for blocks that all have the same names, as
one kind of producer sends them, and one for any block at all. No way makes lists or tuples per line that live on: so
many would keep Python's collector busy for longer than all the rest takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.nats.nats_wire import pairs

_START = b"NATS/1.0\r\n"
_END = b"\r\n\r\n"
# The mark before each block's first line, so that equal names prove that every block has its lines.
_MARK = b"\x02"


class Uniform(NamedTuple):
    """The lines of blocks that all have the same names.

    Attributes:
        names: those of each block, in its order; none twice.
        values: those of all blocks, block after block.
    """

    names: tuple[str, ...]
    values: pa.Array


def header_maps(blocks: Sequence[bytes]) -> pa.Array:
    """One map per block; an empty one for no block."""
    found = uniform(blocks)
    if found is None:
        return _careful(blocks)
    skeleton = _skeleton_for(found.names, len(blocks))
    return pa.MapArray.from_arrays(
        skeleton.offsets.slice(0, len(blocks) + 1), skeleton.keys.slice(0, len(found.values)), found.values
    )


def uniform(blocks: Sequence[bytes]) -> Uniform | None:
    """The lines of the blocks, if they all have the names of the first one."""
    lines = _lines(blocks)
    if lines is None:
        return None
    names = tuple(name for name, _ in pairs(blocks[0]))
    count = len(names) * len(blocks)
    if not names or len(set(names)) < len(names) or len(lines) != count:
        return None
    parts = pc.split_pattern(lines, ": ", max_splits=1).flatten()
    skeleton = _skeleton_for(names, len(blocks))
    if len(parts) != 2 * count:
        return None
    if not parts.take(skeleton.key_positions.slice(0, count)).equals(skeleton.marked_keys.slice(0, count)):
        return None
    return Uniform(names, pc.utf8_trim(parts.take(skeleton.value_positions.slice(0, count)), " \t"))


def _lines(blocks: Sequence[bytes]) -> pa.Array | None:
    """All lines of all blocks, the first of each behind a mark; None when a block is not whole, or not UTF-8."""
    whole = sum(map(bytes.startswith, blocks, repeat(_START))) + sum(map(bytes.endswith, blocks, repeat(_END)))
    if whole < 2 * len(blocks):
        return None
    joined = _MARK.join([block[len(_START) : -2] for block in blocks])
    if joined.count(_MARK) != len(blocks) - 1:
        return None
    try:
        text = pa.array([_MARK + joined], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return None
    # The part behind the last line end is empty, or there was no line at all.
    return pc.split_pattern(text, "\r\n").flatten()[:-1]


def _skeleton_for(names: tuple[str, ...], blocks: int) -> _Skeleton:
    """A skeleton of a size that recurs, so that it is made once."""
    return _skeleton(names, 1 << (blocks - 1).bit_length())


class _Skeleton(NamedTuple):
    """The parts that so many maps with the same keys share."""

    offsets: pa.Array
    keys: pa.Array
    marked_keys: pa.Array
    key_positions: pa.Array
    value_positions: pa.Array


@lru_cache(16)
def _skeleton(names: tuple[str, ...], count: int) -> _Skeleton:
    width = len(names)
    total = count * width
    marked = (_MARK.decode() + names[0], *names[1:])
    return _Skeleton(
        pa.array(range(0, total + 1, width), pa.int32()),
        pa.array(names * count, pa.string()),
        pa.array(marked * count, pa.string()),
        pa.array(range(0, 2 * total, 2), pa.int32()),
        pa.array(range(1, 2 * total, 2), pa.int32()),
    )


def _careful(blocks: Sequence[bytes]) -> pa.Array:
    counts: list[int] = []
    keys: list[str] = []
    values: list[str] = []
    for block in blocks:
        found: dict[str, str] = {}
        for name, value in pairs(block):
            found.setdefault(_readable(name), _readable(value))
        counts.append(len(found))
        keys += found.keys()
        values += found.values()
    return map_array(counts, keys, values)


def _readable(text: str) -> str:
    """The text with replacement characters for bytes that were not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def map_array(counts: Sequence[int], keys: Sequence[str], values: Sequence[str]) -> pa.Array:
    """Maps of so many entries each."""
    offsets = pa.array(accumulate(counts, initial=0), pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array(keys, pa.string()), pa.array(values, pa.string()))
