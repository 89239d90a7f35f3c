"""The metrics that a PromQL expression asks for: their names, each with the labels that are asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser as promql

# Which every series has from the scrape itself.
OF_THE_SCRAPE = {"job", "instance"}


def asked(expression: str) -> list[tuple[str, set[str]]]:
    """Each selector's name, and the labels that its matchers and the aggregations around it name.

    Raises:
        ValueError: it is no PromQL.
    """
    return list(_selectors(promql.parse(with_durations(expression)), set()))


def with_durations(expression: str) -> str:
    """Of Grafana's variables only those in the place of a duration are no PromQL."""
    return expression.replace("$__rate_interval", "5m").replace("$__range", "1h")


def _selectors(node: Any, around: set[str]) -> Iterator[tuple[str, set[str]]]:
    match node:
        case promql.VectorSelector():
            assert node.name is not None, "a selector without a name asks for everything"
            yield node.name, {each.name for each in node.matchers.matchers} | around
        case promql.MatrixSelector():
            yield from _selectors(node.vector_selector, around)
        case promql.AggregateExpr():
            named = set(node.modifier.labels) if node.modifier is not None else set()
            yield from _selectors(node.expr, around | named)
        case promql.Call():
            for argument in node.args:
                yield from _selectors(argument, around)
        case promql.BinaryExpr():
            # What is joined has labels of either side: only matchers are asked of both.
            joined = "group_" in node.prettify()
            for side in (node.lhs, node.rhs):
                yield from _selectors(side, set() if joined else around)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from _selectors(node.expr, around)
