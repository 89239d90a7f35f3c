"""Subjects and patterns as the server matches them, and who listens to a subject.

Written without the product's own matcher: a fault there must not hide in the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Generic, TypeVar

Listener = TypeVar("Listener")


@lru_cache(maxsize=65536)
def matches(pattern: str, subject: str) -> bool:
    """Does a pattern cover a subject? The subject may itself be a pattern: then all that it matches."""
    if pattern == subject:
        return True
    wanted, tokens = pattern.split("."), subject.split(".")
    for index, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > index
        if index >= len(tokens) or tokens[index] == ">":
            return False
        if token not in ("*", tokens[index]):
            return False
    return len(wanted) == len(tokens)


def collide(one: str, other: str) -> bool:
    """Is there a subject that both match?"""
    left, right = one.split("."), other.split(".")
    for a, b in zip(left, right, strict=False):
        if ">" in (a, b):
            return True
        if a != b and "*" not in (a, b):
            return False
    return len(left) == len(right)


def has_wildcard(pattern: str) -> bool:
    return any(token in ("*", ">") for token in pattern.split("."))


def is_valid(pattern: str) -> bool:
    """A legal subject to subscribe to: no empty token, no blank, `>` only at the end."""
    tokens = pattern.split(".")
    return bool(pattern) and all(
        token and not set(token) & set(" \t\n\r\f") and (token != ">" or index == len(tokens) - 1)
        for index, token in enumerate(tokens)
    )


class Interest(Generic[Listener]):
    """The listeners of all connections, found by the subject of a message.

    Nearly all patterns are a subject, or one that ends in a wildcard: those are found by a few look-ups.
    """

    def __init__(self) -> None:
        self._simple: dict[str, list[Listener]] = {}
        self._odd: dict[str, list[Listener]] = {}

    def add(self, pattern: str, listener: Listener) -> None:
        self._table(pattern).setdefault(pattern, []).append(listener)

    def remove(self, pattern: str, listener: Listener) -> None:
        table = self._table(pattern)
        table[pattern].remove(listener)
        if not table[pattern]:
            del table[pattern]

    def match(self, subject: str) -> list[Listener]:
        """The listeners of a subject, in the order of their patterns."""
        return [listener for found in self._found(subject) for listener in found]

    def has(self, subject: str) -> bool:
        return next(self._found(subject), None) is not None

    def _table(self, pattern: str) -> dict[str, list[Listener]]:
        stem, _, last = pattern.rpartition(".")
        return self._odd if has_wildcard(stem) or (not stem and last in ("*", ">")) else self._simple

    def _found(self, subject: str) -> Iterator[list[Listener]]:
        simple = self._simple
        if subject in simple:
            yield simple[subject]
        stem = subject.rpartition(".")[0]
        if (star := f"{stem}.*") in simple:
            yield simple[star]
        while stem:
            if (rest := f"{stem}.>") in simple:
                yield simple[rest]
            stem = stem.rpartition(".")[0]
        for pattern, listeners in self._odd.items():
            if matches(pattern, subject):
                yield listeners
