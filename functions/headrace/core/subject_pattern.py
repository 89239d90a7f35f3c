"""Subjects with wildcards: which overlap or cover others, what a consumer sees, and where a transform moves them.

Pure. Knows NATS' grammar of subjects and of subject transforms, as far as a filter can follow them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_WILDCARD = re.compile(r"\$([+-]?\d+)|\{\{\s*wildcard\(\s*(\d+)\s*\)\s*\}\}", re.ASCII | re.IGNORECASE)


def overlap(one: str, other: str) -> bool:
    """Is there a subject that both patterns match?"""
    a, b = one.split("."), other.split(".")
    for left, right in zip(a, b, strict=False):
        if ">" in (left, right):
            return True
        if left != right and "*" not in (left, right):
            return False
    return len(a) == len(b)


def covers(one: str, other: str) -> bool:
    """Does the one pattern match every subject that the other matches?"""
    a, b = one.split("."), other.split(".")
    for index, token in enumerate(a):
        if token == ">":  # of a subject
            return len(b) > index
        if index >= len(b) or b[index] == ">" or token not in ("*", b[index]):
            return False
    return len(a) == len(b)


def results(destination: str) -> str:
    """A pattern that matches every subject which a destination in NATS' mapping language can give."""
    found: list[str] = []
    for token in destination.split("."):
        if "{{" in token and not _WILDCARD.fullmatch(token):
            # Some functions give several tokens.
            return ".".join([*found, ">"])
        found.append("*" if _WILDCARD.fullmatch(token) else token)
    return ".".join(found)


def filters(consumer: Mapping[str, Any]) -> list[str]:
    """The patterns of the subjects that a consumer sees, from its configuration; without a filter it sees all."""
    single = consumer.get("filter_subject")
    return list(consumer.get("filter_subjects") or ([single] if single else [">"]))


def unseen(subjects: Mapping[str, int], patterns: Iterable[str]) -> dict[str, int]:
    """The subjects of a stream that none of the patterns matches, each with its number of events."""
    # Thousands of consumers of a channel see the same.
    known = set(patterns)
    return {subject: count for subject, count in subjects.items() if not any(overlap(one, subject) for one in known)}


def stored(pattern: str, transform: Mapping[str, Any] | None) -> str | None:
    """The pattern under which a stream with this `subject_transform` stores it; None: no filter can tell.

    Only a transform that moves whole tokens can be followed: not one that splits, hashes or cuts them, nor one that
    moves a part of the pattern's subjects and leaves the rest.
    """
    if not transform or not transform.get("dest"):
        return pattern
    source = str(transform.get("src") or ">")
    if not overlap(pattern, source):
        return pattern
    taken = _taken(pattern.split("."), source.split("."))
    return None if taken is None else _moved(str(transform["dest"]), *taken)


def _taken(pattern: list[str], source: list[str]) -> tuple[list[str], list[str]] | None:
    """The parts of the pattern under each `*` of the source and under its `>`; None when the pattern matches more."""
    wildcards: list[str] = []
    for index, token in enumerate(source):
        if token == ">":
            return wildcards, pattern[index:]
        if index >= len(pattern) or pattern[index] == ">":
            return None
        if token == "*":  # of a subject
            wildcards.append(pattern[index])
        elif pattern[index] != token:
            return None
    return (wildcards, []) if len(pattern) == len(source) else None


def _moved(destination: str, wildcards: list[str], rest: list[str]) -> str | None:
    found: list[str] = []
    for token in destination.split("."):
        if token == ">":  # of a subject
            found += rest
        elif match := _WILDCARD.fullmatch(token):
            number = int(match[1] or match[2])
            if not 1 <= number <= len(wildcards):
                return None
            found.append(wildcards[number - 1])
        elif "{{" in token:
            return None
        else:
            found.append(token)
    return ".".join(found)
