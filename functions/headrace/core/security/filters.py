"""Filters on an event's attributes, as EventPolicies and Triggers of Knative write them.

    list of the manifest ──parsed──▶ tree (JSON) ──passing──▶ does an event pass?

Their dialects are those of the CloudEvents Subscriptions API. `parsed` refuses what can't be obeyed, or costs too much
at an event's time; whoever evaluates gets the tree. Pure. Called by `headrace.core.security.policy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from headrace.core.errors import InvalidSpec
from headrace.core.event.event import is_name
from headrace.core.quoting import quoted
from headrace.core.security.cesql.evaluate import Expression
from headrace.core.security.cesql.evaluate import Tree as CesqlTree
from headrace.core.security.cesql.parse import parse, size
from headrace.core.security.cesql.values import CesqlError

Tree: TypeAlias = list[Any]
"""A dialect, and what it is given: `["exact", {attribute: value}]`, `["all", [tree, …]]`, `["cesql", …]`."""
Passes: TypeAlias = Callable[[Mapping[str, str]], bool]

DEEPEST = 32
"""Filters within one another."""
_ATTRIBUTES = ("exact", "prefix", "suffix")
_LISTS = ("all", "any")
DIALECTS = (*_ATTRIBUTES, *_LISTS, "not", "cesql")


def parsed(filters: Any, field: str) -> Tree | None:
    """The filters of a list, all of which an event must pass; None: they let every event pass.

    As in Knative, an element without any dialect is passed over. Unlike there, one that can't be understood is
    refused, not passed over: that would let in what its author meant to keep out.

    Args:
        field: the list's path in the manifest.

    Raises:
        InvalidSpec: something in it can't be obeyed.
    """
    return _list("all", filters, field, DEEPEST)


def cost(tree: Tree) -> int:
    """The comparisons and operations that an event may cost, roughly."""
    dialect, given = tree
    if dialect in _LISTS:
        return sum(map(cost, given))
    if dialect == "not":
        return cost(given)
    return size(given) if dialect == "cesql" else len(given)


def passing(tree: Tree) -> Passes:
    """The tree as a function of an event's attributes."""
    dialect, given = tree
    match dialect:
        case "all":
            each = [passing(one) for one in given]
            return lambda attributes: all(passes(attributes) for passes in each)
        case "any":
            each = [passing(one) for one in given]
            return lambda attributes: any(passes(attributes) for passes in each)
        case "not":
            inner = passing(given)
            return lambda attributes: not inner(attributes)
        case "cesql":
            return Expression(given).passes
    return _of_attributes(_COMPARISONS[dialect], tuple(given.items()))


def _of_attributes(holds: Callable[[str, str], bool], wanted: Sequence[tuple[str, str]]) -> Passes:
    def passes(attributes: Mapping[str, str]) -> bool:
        return all(name in attributes and holds(attributes[name], value) for name, value in wanted)

    return passes


def _list(dialect: str, filters: Any, field: str, depth: int) -> Tree | None:
    if filters is None:
        return None
    if not isinstance(filters, list):
        raise InvalidSpec(f"{field} is {quoted(filters)}: give a list of filters", field=field)
    found = [_one(each, f"{field}[{index}]", depth) for index, each in enumerate(filters)]
    trees = [tree for tree in found if tree is not None]
    return [dialect, trees] if trees else None


def _one(given: Any, field: str, depth: int) -> Tree | None:
    if depth == 0:
        raise InvalidSpec(
            f"{field} is the {DEEPEST + 1}th filter within another, at most {DEEPEST} are read", field=field
        )
    if not isinstance(given, Mapping):
        raise InvalidSpec(f"{field} is {quoted(given)}: give an object with one of {', '.join(DIALECTS)}", field=field)
    unknown = sorted(str(name) for name in given if name not in DIALECTS)
    if unknown:
        raise InvalidSpec(f"{field}.{unknown[0]} is no dialect: give one of {', '.join(DIALECTS)}", field=field)
    # An empty `not` is a dialect to Knative, and other empty ones are none.
    empty: tuple[Any, ...] = (None, [], "", {})
    dialects = [name for name in DIALECTS if given.get(name) not in (empty[:1] if name == "not" else empty)]
    if len(dialects) > 1:
        raise InvalidSpec(f"{field} has {' and '.join(dialects)}: give each a filter of its own", field=field)
    for dialect in dialects:
        return _of_dialect(dialect, given[dialect], f"{field}.{dialect}", depth)
    return None


def _of_dialect(dialect: str, given: Any, field: str, depth: int) -> Tree | None:
    if dialect in _LISTS:
        return _list(dialect, given, field, depth - 1)
    if dialect == "not":
        inner = None if given is None else _one(given, field, depth - 1)
        return None if inner is None else ["not", inner]
    if dialect == "cesql":
        return ["cesql", _expression(given, field)]
    return [dialect, dict(_attributes(given, field))]


def _attributes(given: Any, field: str) -> Iterator[tuple[str, str]]:
    if not isinstance(given, Mapping):
        raise InvalidSpec(f"{field} is {quoted(given)}: give attributes and their values", field=field)
    for name, value in given.items():
        if not is_name(name):
            raise InvalidSpec(f"{field} has {quoted(name)}: attributes have the letters a-z and digits", field=field)
        if not isinstance(value, str) or not value:
            raise InvalidSpec(f"{field}.{name} is {quoted(value)}: give a text that is not empty", field=field)
        yield name, value


def _expression(given: Any, field: str) -> CesqlTree:
    if not isinstance(given, str):
        raise InvalidSpec(f"{field} is {quoted(given)}: give an expression of CESQL as a text", field=field)
    try:
        return parse(given)
    except CesqlError as error:
        raise InvalidSpec(f"{field} is {quoted(given)}, which CESQL can't read: {error}", field=field) from error


_COMPARISONS: dict[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}
