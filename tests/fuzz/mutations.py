"""Hostile inputs, made from good ones: bytes, header lines, JSON nodes.

Every strategy draws a good message and a short program of changes, so that what fails shrinks to the few changes that
matter. Knows no codec; the targets name the good messages and the words that are worth splicing in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

Header = tuple[bytes, bytes]

# Large enough that what takes quadratic time is seen, small enough that a round is soon over.
MOST_BYTES = 96 * 1024
# Of one blow-up; most are small, since the large ones take nearly all of the time.
_TIMES = (2, 2, 2, 3, 3, 3, 5, 17, 300, 20_000)
_WORDS = (b"\r\n", b"\r", b"\n", b"\0", b" ", b"\t", b":", b",", b";", b"%", b'"', b"\\", b"\x7f", b"\xff", b"\xc3\xa9")
_PLACES = st.integers(0, 4095)
_LENGTHS = (1, 1, 2, 4, 16, 64)

# JSON that `json.dumps` would not write, or not as quickly.
_HOSTILE_JSON = (
    *("null", "true", "[]", "{}", '""', "0", "-0", "-1", "1e400", "-1e400", "NaN", "Infinity", "1.5", "2147483648"),
    *("9223372036854775808", "1" * 400, "9" * 5000, '"\\ud800"', '"\\u0000"', '"\\r\\nx: y"', '"\\udc80"', '"\ufdd0"'),
    *(
        '"%0d%0a"',
        '"é"',
        '{"a":1,"a":2}',
        "[" * 60 + "]" * 60,
        "[" * 3000 + "]" * 3000,
        '{"a":' * 990 + "1" + "}" * 990,
    ),
    *(
        '"' + "x" * 3000 + '"',
        '"PT' + "9" * 400 + 'S"',
        '"0001-01-01T00:00:00+05:00"',
        '"' + "1" * 20_000 + '"',
        "1" * 20_000,
    ),
)
# Times at most 256 bytes: beyond every bound of a line or a head.
ENDLESS = 1000
_PLACEHOLDER = "\x00here\x00"


# A change is one number, since each draw of Hypothesis costs as much as many a reader: kind, place, length and word are
# digits of it. It stays below 2**24, where Hypothesis draws evenly.
_CHANGES = st.lists(st.integers(0, 2**24 - 1), max_size=5)


def _changed(text: bytes, change: int, words: Sequence[bytes]) -> bytes:
    change, kind = divmod(change, 7)
    change, place = divmod(change, 1024)
    extra, length = divmod(change, len(_LENGTHS))
    at = place % (len(text) + 1)
    before, piece, after = text[:at], text[at : at + _LENGTHS[length]], text[at + _LENGTHS[length] :]
    match kind:
        case 0:
            return before + after
        case 1:
            return before + bytes(byte ^ (1 << extra % 8) for byte in piece) + after
        case 2:
            most = max(1, (MOST_BYTES - len(text)) // max(1, len(piece)))
            return before + piece * min(_TIMES[extra % len(_TIMES)], most) + after
        case 3:
            return before + piece[::-1] + after
        case 4:
            return before
        case _:
            return before + words[extra % len(words)] + piece + after


def mutated(good: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """One of the good texts after a few changes, two of them spliced together, or any bytes at all."""
    seeds, spliced = st.sampled_from(tuple(good)), (*words, *_WORDS)

    def build(first: bytes, second: bytes | None, at: int, program: list[int]) -> bytes:
        text = first if second is None else first[: at % (len(first) + 1)] + second[at % (len(second) + 1) :]
        for change in program:
            text = _changed(text, change, spliced)
        return text

    return st.one_of(
        st.binary(max_size=64),
        *[st.builds(build, seeds, st.none(), st.just(0), _CHANGES)] * 4,
        st.builds(build, seeds, seeds, _PLACES, _CHANGES),
    )


def mutated_text(good: Sequence[str], words: Sequence[str] = ()) -> st.SearchStrategy[str]:
    """As `mutated`, as text; bytes that are not UTF-8 become surrogates."""
    encoded = [text.encode() for text in good]
    texts = mutated(encoded, [word.encode() for word in words]).map(
        lambda text: text.decode("utf-8", "surrogateescape")
    )
    return texts | st.text(max_size=30)


def headers(
    good: Sequence[Header], names: Sequence[bytes], values: Sequence[bytes]
) -> st.SearchStrategy[tuple[Header, ...]]:
    """Header lists: lines of the good one lost, doubled, changed, and others added, up to very many."""
    value = st.sampled_from((*values, *_WORDS)) | mutated([*values, *(value for _, value in good)])
    line = st.tuples(st.sampled_from(tuple(names)) | mutated(names), value)
    extra = st.lists(line, max_size=4)
    lost = st.just(set()) | st.just(set()) | st.sets(st.integers(0, len(good) - 1), max_size=2)
    doubled = st.none() | st.none() | st.none() | st.tuples(st.integers(0, len(good)), st.sampled_from((1, 2, 300)))

    instead = st.none() | st.tuples(st.integers(0, len(good) - 1), value)

    def build(
        other: tuple[int, bytes] | None,
        more: list[Header],
        without: set[int],
        again: tuple[int, int] | None,
        numbered: int,
    ) -> tuple[Header, ...]:
        lines = list(good)
        if other is not None:
            lines[other[0]] = (lines[other[0]][0], other[1])
        lines = [header for at, header in enumerate(lines) if at not in without] + more
        if again is not None and lines:
            lines += [lines[again[0] % len(lines)]] * again[1]
        lines += [(b"ce-n%d" % number, b"v") for number in range(numbered)]
        return tuple(lines)

    return st.builds(build, instead, st.just([]) | extra, lost, doubled, st.sampled_from((*[0] * 20, 1, 250, 300)))


def pieces(texts: st.SearchStrategy[bytes]) -> st.SearchStrategy[tuple[bytes, ...]]:
    """A text as it may come from a socket: in pieces, however small."""

    def cut(text: bytes, places: list[int]) -> tuple[bytes, ...]:
        edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
        return tuple(text[start:end] for start, end in pairwise(edges)) or (b"",)

    return st.builds(cut, texts, st.lists(_PLACES, max_size=4))


def endless(texts: st.SearchStrategy[bytes], words: Sequence[bytes]) -> st.SearchStrategy[tuple[bytes, bytes]]:
    """How something begins, and what then comes again and again (`ENDLESS` times)."""
    word = st.sampled_from((*words, *_WORDS)) | st.binary(min_size=1, max_size=8)
    more = st.builds(lambda text, times: (text * times)[:256], word, st.integers(1, 200))
    return st.tuples(texts.map(lambda text: text[:4096]), more)


def json_texts(*good: Any) -> st.SearchStrategy[bytes]:
    """A JSON text with nodes replaced, lost or added, or with its bytes changed."""
    chosen = st.sampled_from([(value, _places(value)) for value in good])
    by_byte = mutated([json.dumps(value).encode() for value in good], [text.encode() for text in _HOSTILE_JSON[:12]])
    by_node = st.builds(_with_nodes, chosen, _CHANGES, st.just(()))
    by_value = st.builds(_with_nodes, chosen, st.lists(_PLACES, min_size=1, max_size=2), st.tuples(_json_values()))
    return st.one_of(by_node, by_node, by_value, by_byte)


def _with_nodes(chosen: tuple[Any, list[tuple[Any, ...]]], changes: list[int], new: tuple[Any, ...]) -> bytes:
    """The text of a value after changes to its nodes, each one number as above; `new` goes before what is hostile."""
    value, paths = chosen
    raw = [*map(json.dumps, new)] or _HOSTILE_JSON
    marks: dict[str, str] = {}
    for number, change in enumerate(changes):
        rest, place = divmod(change, len(paths))
        which, kind = divmod(rest, 5)
        mark = f"{_PLACEHOLDER}{number}"
        # An earlier change may have taken the place away.
        with suppress(KeyError, IndexError, TypeError, AttributeError):
            value = _replaced(value, paths[place], kind, mark)
            marks[json.dumps(mark)] = raw[which % len(raw)]
    text = json.dumps(value)
    for mark, instead in marks.items():
        text = text.replace(mark, instead)
    return text.encode(errors="surrogatepass")


def _json_values() -> st.SearchStrategy[Any]:
    leaf = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=4,
    )


def _places(value: Any) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, below in inner for rest in _places(below))]


def _replaced(value: Any, path: tuple[Any, ...], kind: int, new: str) -> Any:
    if not path:
        return {**value, "more": new} if kind == 0 and isinstance(value, dict) else new
    copy = value.copy()
    if len(path) == 1 and kind == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = _replaced(value[path[0]], path[1:], kind, new)
    return copy
