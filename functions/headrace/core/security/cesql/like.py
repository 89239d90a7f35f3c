"""The patterns of LIKE: `%` for any characters, `_` for one, a backslash before either for itself.

A pattern is matched piece by piece between its `%`, leftmost first, which never has to go back. So a hostile pattern
costs no more than a step per character of the text and 64 characters of the pattern. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# One character of a piece; None stands for any.
_Piece = tuple[str | None, ...]
_TOKEN = re.compile(r"\\[%_]|.", re.DOTALL)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text matches, as a function of the text."""
    pieces: list[list[str | None]] = [[]]
    for token in _TOKEN.findall(pattern):
        if token == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if token == "_" else token[-1])
    first, *others = map(tuple, pieces)
    if not others:
        return lambda text: len(text) == len(first) and _at(text, 0, first)
    finders = [_finder(piece) for piece in others[:-1] if piece]
    last = others[-1]

    def matches(text: str) -> bool:
        end = len(text) - len(last)
        if end < len(first) or not _at(text, 0, first) or not _at(text, end, last):
            return False
        place = len(first)
        return all((place := find(text, place, end)) >= 0 for find in finders)

    return matches


def _at(text: str, place: int, piece: _Piece) -> bool:
    return all(want is None or text[place + index] == want for index, want in enumerate(piece))


def _finder(piece: _Piece) -> Callable[[str, int, int], int]:
    """Where the leftmost occurrence between two places ends; -1 for none."""
    if None not in piece:
        plain = "".join(filter(None, piece))

        def find(text: str, start: int, end: int) -> int:
            found = text.find(plain, start, end)
            return found if found < 0 else found + len(plain)

        return find
    return _finder_of_any(piece)


def _finder_of_any(piece: _Piece) -> Callable[[str, int, int], int]:
    """A bit for each character of the piece is set while the text so far may end there."""
    anything = sum(1 << index for index, want in enumerate(piece) if want is None)
    places = dict.fromkeys((want for want in piece if want is not None), anything)
    for index, want in enumerate(piece):
        if want is not None:
            places[want] |= 1 << index
    done = 1 << (len(piece) - 1)

    def find(text: str, start: int, end: int) -> int:
        open_ = 0
        for place in range(start, end):
            open_ = (open_ << 1 | 1) & places.get(text[place], anything)
            if open_ & done:
                return place + 1
        return -1

    return find
