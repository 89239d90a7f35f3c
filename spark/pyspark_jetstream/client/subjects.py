"""Subjects and what matches them, with NATS's wildcards: `*` for one token, `>` at the end for one or more. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


def is_filter(text: str) -> bool:
    """Whether a text may stand as a filter: tokens that are not empty, without blanks, `>` at the end only."""
    tokens = text.split(".")
    return all(tokens) and text.isprintable() and " " not in text and ">" not in tokens[:-1]


def includes(wide: str, narrow: str) -> bool:
    """Whether every subject that `narrow` matches is matched by `wide`, too."""
    mine, theirs = wide.split("."), narrow.split(".")
    for at, token in enumerate(mine):
        if token == ">":
            return len(theirs) > at
        if at >= len(theirs) or theirs[at] == ">" or token not in ("*", theirs[at]):
            return False
    return len(mine) == len(theirs)


def without_included(filters: Iterable[str]) -> tuple[str, ...]:
    """The filters without those that another one includes: a consumer refuses such overlaps."""
    once = list(dict.fromkeys(filters))
    return tuple(one for one in once if not any(other != one and includes(other, one) for other in once))


def matching(filters: Iterable[str]) -> Callable[[str], bool]:
    words = {"*": "[^.]+", ">": ".+"}
    patterns = (r"\.".join(words.get(token) or re.escape(token) for token in one.split(".")) for one in filters)
    pattern = re.compile("|".join(f"(?:{one})" for one in patterns))
    return lambda subject: pattern.fullmatch(subject) is not None
