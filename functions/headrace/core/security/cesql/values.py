"""The values of CESQL, their casts, and its errors. Pure; the rest of the package stands on it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from headrace.core.errors import HeadraceError
from headrace.core.quoting import quoted

Value: TypeAlias = str | int | bool
Kind: TypeAlias = Literal[
    "parse", "math", "cast", "missingAttribute", "missingFunction", "functionEvaluation", "generic"
]
"""The kinds of errors, as the TCK of CESQL writes them."""

LEAST, MOST = -(2**31), 2**31 - 1
_NUMBER = re.compile(r"[+-]?0*[0-9]{1,10}", re.ASCII)
NAMES: dict[type, str] = {str: "String", int: "Integer", bool: "Boolean"}


class CesqlError(HeadraceError):
    """What went wrong in an expression.

    Attributes:
        kind: which of CESQL's errors it is.
        value: what the function that failed gives all the same; None for the zero value of its type.
    """

    def __init__(self, kind: Kind, words: str, value: Value | None = None) -> None:
        super().__init__(words)
        self.kind = kind
        self.value = value


def number(text: str) -> int | None:
    """The signed 32 bit integer that a text writes; None: it writes none."""
    if _NUMBER.fullmatch(text) is None:
        return None
    found = int(text)
    return found if LEAST <= found <= MOST else None


def wrapped(value: int) -> int:
    """The integer in 32 bits: beyond the largest comes the smallest, as in the SDK that Knative uses."""
    return value if LEAST <= value <= MOST else (value - LEAST) % 2**32 + LEAST


def text(value: Value) -> str:
    if type(value) is bool:
        return "true" if value else "false"
    return value if type(value) is str else str(value)


def integer(value: Value) -> int:
    if type(value) is not str:
        return int(value)
    if (found := number(value)) is None:
        raise CesqlError("cast", f"{quoted(value)} is no Integer: write up to 10 digits within 32 bits", 0)
    return found


def boolean(value: Value) -> bool:
    if type(value) is not str:
        return bool(value)
    match value.lower():
        case "true":
            return True
        case "false":
            return False
    raise CesqlError("cast", f"{quoted(value)} is no Boolean: write true or false", False)


def same(left: Value, right: Value) -> bool:
    """Equal after a cast of the left value to the type of the right one."""
    if type(left) is not type(right):
        left = CASTS[type(right)](left)
    return left == right


CASTS: dict[type, Callable[[Value], Value]] = {str: text, int: integer, bool: boolean}
