"""JSON objects and arrays with the text of their members as it was written, which the standard parser does not give.

Pure. Called by `headrace.core.event.json_format`, and by parts that take in or show many events; parts that read or
write large texts beside a loop use `given` and `in_pieces`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn, TypeVar

_BLANK = re.compile(r"[ \t\n\r]*")

Item = TypeVar("Item")


class Member(NamedTuple):
    """A member of the top-level object: its name, its value, and the value's JSON text as it was written."""

    name: str
    value: object
    raw: str


def _no_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Numbers stay text: their form is kept, and no number is too large.
DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)


def given(one: dict[str, Any]) -> dict[str, Any]:
    """The same object: an `object_hook`. Only while the parser calls Python can other threads run."""
    return one


def in_pieces(value: object, depth: int, encode: Callable[[object], str] = json.dumps) -> str:
    """The text that `encode` writes, by pieces of that depth: while it writes one, no other thread runs."""
    match value:
        case dict() if depth and all(isinstance(name, str) for name in value):
            named = (f"{encode(name)}: {in_pieces(one, depth - 1, encode)}" for name, one in value.items())
            return f"{{{', '.join(named)}}}"
        case list() if depth:
            return f"[{', '.join([in_pieces(one, depth - 1, encode) for one in value])}]"
        case _:
            return encode(value)


def members(text: str) -> Iterator[Member]:
    """The members of a JSON object, as they are written; ValueError when the text is anything else.

    The standard parser tells where a value ends, but not where a member's value began: hence this loop.
    """

    def member(at: int) -> tuple[Member, int]:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting a member name in double quotes", text, at)
        name, at = DECODER.raw_decode(text, at)
        start = _after(text, ":", _skip(text, at))
        value, end = DECODER.raw_decode(text, start)
        return Member(name, value, text[start:end]), end

    return _listed(text, "{", "}", member)


def elements(text: str) -> Iterator[str]:
    """The elements of a JSON array, as they are written; ValueError when the text is anything else."""

    def element(at: int) -> tuple[str, int]:
        end = DECODER.raw_decode(text, at)[1]
        return text[at:end], end

    return _listed(text, "[", "]", element)


def _listed(text: str, begin: str, end: str, one: Callable[[int], tuple[Item, int]]) -> Iterator[Item]:
    at = _after(text, begin, _skip(text, 0))
    if text[at : at + 1] != end:
        while True:
            item, at = one(at)
            yield item
            at = _skip(text, at)
            if text[at : at + 1] != ",":
                break
            at = _after(text, ",", at)
    at = _after(text, end, at)
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)


def _after(text: str, mark: str, at: int) -> int:
    """The position behind a mark and the blanks that follow it."""
    if text[at : at + 1] != mark:
        raise json.JSONDecodeError(f"Expecting '{mark}'", text, at)
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
