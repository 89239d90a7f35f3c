"""The built-in functions of CESQL, by name and number of arguments. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.security.cesql import values
from headrace.core.security.cesql.values import CesqlError, Value

MOST_CHARACTERS = 64 * 1024
"""Of a text that CONCAT makes: an attribute is no longer, and a few lines could ask for megabytes at each event."""
# Unicode's white space; Python's own list has control characters, too.
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """One function.

    Attributes:
        run: takes the arguments, cast.
        casts: of the arguments; the last one is also that of all further ones.
        zero: the value of its type that stands for none.
    """

    run: Callable[..., Value]
    casts: tuple[Callable[[Value], Value], ...]
    zero: Value


def find(name: str, count: int) -> BuiltIn | None:
    """The function of that upper-case name for so many arguments."""
    if name in _VARIADIC:
        function, least = _VARIADIC[name]
        return function if count >= least else None
    return _FIXED.get((name, count))


def _as_it_is(value: Value) -> Value:
    return value


def _castable(cast: Callable[[Value], Value]) -> Callable[[Value], bool]:
    def castable(value: Value) -> bool:
        try:
            cast(value)
        except CesqlError:
            return False
        return True

    return castable


def _joined(between: str, parts: Sequence[str]) -> str:
    if sum(map(len, parts)) + len(between) * len(parts) > MOST_CHARACTERS:
        raise CesqlError("functionEvaluation", f"a text of more than {MOST_CHARACTERS} characters is not made", "")
    return between.join(parts)


def _left(value: str, count: int) -> str:
    if count < 0:
        raise CesqlError("functionEvaluation", f"LEFT takes 0 or more characters, not {count}", value)
    return value[:count]


def _right(value: str, count: int) -> str:
    if count < 0:
        raise CesqlError("functionEvaluation", f"RIGHT takes 0 or more characters, not {count}", value)
    return value[max(len(value) - count, 0) :]


def _substring(value: str, place: int, count: int = values.MOST) -> str:
    if place == 0:
        return ""
    if abs(place) > len(value) or count < 0:
        words = f"SUBSTRING finds no {count} characters from {place} on in a text of {len(value)}"
        raise CesqlError("functionEvaluation", words, "")
    start = place - 1 if place > 0 else len(value) + place
    return value[start : start + count]


def _abs(value: int) -> int:
    if value == values.LEAST:
        raise CesqlError("math", f"ABS({value}) is beyond 32 bits", values.MOST)
    return abs(value)


_TEXT: tuple[Any, ...] = (values.text,)
_FIXED: dict[tuple[str, int], BuiltIn] = {
    ("LENGTH", 1): BuiltIn(len, _TEXT, 0),
    ("LOWER", 1): BuiltIn(str.lower, _TEXT, ""),
    ("UPPER", 1): BuiltIn(str.upper, _TEXT, ""),
    ("TRIM", 1): BuiltIn(lambda value: value.strip(_BLANKS), _TEXT, ""),
    ("LEFT", 2): BuiltIn(_left, (values.text, values.integer), ""),
    ("RIGHT", 2): BuiltIn(_right, (values.text, values.integer), ""),
    ("SUBSTRING", 2): BuiltIn(_substring, (values.text, values.integer), ""),
    ("SUBSTRING", 3): BuiltIn(_substring, (values.text, values.integer), ""),
    ("ABS", 1): BuiltIn(_abs, (values.integer,), 0),
    ("INT", 1): BuiltIn(values.integer, (_as_it_is,), 0),
    ("BOOL", 1): BuiltIn(values.boolean, (_as_it_is,), False),
    ("STRING", 1): BuiltIn(values.text, (_as_it_is,), ""),
    ("IS_INT", 1): BuiltIn(_castable(values.integer), (_as_it_is,), False),
    ("IS_BOOL", 1): BuiltIn(_castable(values.boolean), (_as_it_is,), False),
}
_VARIADIC: dict[str, tuple[BuiltIn, int]] = {
    "CONCAT": (BuiltIn(lambda *parts: _joined("", parts), _TEXT, ""), 0),
    "CONCAT_WS": (BuiltIn(lambda between, *parts: _joined(between, parts), _TEXT, ""), 1),
}
