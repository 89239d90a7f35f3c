"""What an expression of CESQL says of an event's attributes.

A tree becomes nested functions once; evaluation stops at the first error ("fail fast", as CESQL advises for filters).
Pure; needs no parser.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from headrace.core.security.cesql import functions, like
from headrace.core.security.cesql.values import CesqlError, Value, boolean, integer, same, text, wrapped

Tree: TypeAlias = list[Any]
"""One operation: its word, and what it is done to. JSON, so that it can be stored and sent."""
Attributes: TypeAlias = Mapping[str, Value]
Step: TypeAlias = Callable[[Attributes], Value]
# Valid events have them.
_REQUIRED = ("specversion", "id", "source", "type")


class Expression:
    """A compiled expression."""

    __slots__ = ("_is_call", "_step", "_zero")

    def __init__(self, tree: Tree) -> None:
        self._step = _step(tree)
        self._zero = _zero(tree)
        self._is_call = tree[0] == "call"

    def evaluate(self, attributes: Attributes) -> tuple[Value, CesqlError | None]:
        """Its value, and the first error; with an error the value is the zero value of its type."""
        try:
            return self._step(attributes), None
        except CesqlError as error:
            return self._zero if error.value is None or not self._is_call else error.value, error

    def passes(self, attributes: Attributes) -> bool:
        """Does an event pass it as a filter? Only `true` without an error does."""
        try:
            return self._step(attributes) is True
        except CesqlError:
            return False


def _step(tree: Tree) -> Step:
    return _STEPS[tree[0]](*tree[1:])


def _literal(value: Value) -> Step:
    return lambda _: value


def _attribute(name: str) -> Step:
    def step(attributes: Attributes) -> Value:
        try:
            return attributes[name]
        except KeyError:
            raise CesqlError("missingAttribute", f"the event has no attribute {name}") from None

    return step


def _exists(name: str) -> Step:
    return lambda attributes: name in attributes or name in _REQUIRED


def _not(tree: Tree) -> Step:
    inner = _step(tree)
    return lambda attributes: not boolean(inner(attributes))


def _minus(tree: Tree) -> Step:
    inner = _step(tree)
    return lambda attributes: wrapped(-integer(inner(attributes)))


def _like(tree: Tree, pattern: str) -> Step:
    inner, matches = _step(tree), like.matcher(pattern)
    return lambda attributes: matches(text(inner(attributes)))


def _in(tree: Tree, members: list[Tree]) -> Step:
    inner, steps = _step(tree), [_step(member) for member in members]

    def step(attributes: Attributes) -> Value:
        wanted = inner(attributes)
        return any(same(each(attributes), wanted) for each in steps)

    return step


def _binary(word: str, left: Tree, right: Tree) -> Step:
    first, second = _step(left), _step(right)
    if word in ("=", "!="):
        equal = word == "="
        return lambda attributes: same(first(attributes), second(attributes)) is equal
    act = _NUMERIC[word]

    def step(attributes: Attributes) -> Value:
        one, other = first(attributes), second(attributes)
        return act(integer(one), integer(other))

    return step


def _logic(*parts: Any) -> Step:
    """Terms with AND, OR and XOR between them, all of one rank, which bind to the right, as in CESQL's grammar."""
    *pairs, last = [*zip(map(_step, parts[::2]), [*parts[1::2], ""], strict=True)]

    def step(attributes: Attributes) -> Value:
        turned = False
        for term, word in pairs:
            holds = boolean(term(attributes))
            if word == "XOR":
                turned = turned is not holds
            elif holds is (word == "OR"):
                return turned is not holds
        return turned is not boolean(last[0](attributes))

    return step


def _call(name: str, *arguments: Tree) -> Step:
    steps = [_step(argument) for argument in arguments]
    function = functions.find(name, len(steps))
    if function is None:

        def missing(_: Attributes) -> Value:
            raise CesqlError("missingFunction", f"there is no function {name} of {len(steps)} arguments")

        return missing
    casts, run = function.casts, function.run
    casts += casts[-1:] * (len(steps) - len(casts))
    cast_steps = [*zip(casts, steps, strict=False)]

    def step(attributes: Attributes) -> Value:
        try:
            found = [cast(each(attributes)) for cast, each in cast_steps]
        except CesqlError as error:
            # What an argument gives all the same is not what the function gives.
            error.value = None
            raise
        return run(*found)

    return step


def _divided(one: int, other: int) -> int:
    if other == 0:
        raise CesqlError("math", f"{one} can't be divided by 0")
    found = abs(one) // abs(other)
    return wrapped(found if (one < 0) == (other < 0) else -found)


def _rest(one: int, other: int) -> int:
    return wrapped(one - other * _divided(one, other))


def _zero(tree: Tree) -> Value:
    """The zero value of the tree's type; where that is unknown CESQL takes it for Boolean."""
    match tree:
        case ["is", value]:
            return type(value)()  # type: ignore[no-any-return]  # a literal is one of three types
        case ["minus", *_] | ["do", "+" | "-" | "*" | "/" | "%", *_]:
            return 0
        case ["call", name, *arguments]:
            function = functions.find(name, len(arguments))
            return function.zero if function is not None else False
    return False


_NUMERIC: dict[str, Callable[[int, int], Value]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": lambda one, other: wrapped(one + other),
    "-": lambda one, other: wrapped(one - other),
    "*": lambda one, other: wrapped(one * other),
    "/": _divided,
    "%": _rest,
}
_STEPS: dict[str, Callable[..., Step]] = {
    "is": _literal,
    "get": _attribute,
    "exists": _exists,
    "not": _not,
    "minus": _minus,
    "like": _like,
    "in": _in,
    "do": _binary,
    "logic": _logic,
    "call": _call,
}
