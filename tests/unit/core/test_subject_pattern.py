"""Patterns of subjects, and where a stream's transform moves them: as NATS 2.15.1 stored them when it was asked."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import subject_pattern
from headrace.core.subject_pattern import covers, overlap, results, stored


@pytest.mark.parametrize(
    ("source", "destination", "subject", "lies_at"),
    [
        (">", "v1.>", "a.b.c", "v1.a.b.c"),
        ("", "v2.>", "a.b.c", "v2.a.b.c"),
        ("a.*.c", "x.$1", "a.b.c", "x.b"),
        ("a.*.*", "x.{{wildcard(2)}}.{{Wildcard(1)}}", "a.b.c", "x.c.b"),
        ("a.*.>", "v1.$1.>", "a.b.c", "v1.b.c"),
        ("a.b.c", "z", "a.b.c", "z"),
        ("a.*.c", "x.pre$1", "a.b.c", "x.pre$1"),
        pytest.param("q.>", "v1.>", "a.b.c", "a.b.c", id="it is not matched"),
        pytest.param("a.*.*", "x.{{partition(3,1)}}.$1", "a.b.c", None, id="a hash of it"),
        pytest.param("a.*", "x.$2", "a.b", None, id="there is no second wildcard"),
        pytest.param(">", "v1.>", "a.>", "v1.a.>", id="a pattern"),
        pytest.param("a.*.>", "v1.$1.>", "a.*.c", "v1.*.c", id="a pattern, wildcard by wildcard"),
        pytest.param("a.b.*", "v1.$1", "a.>", None, id="only a part of a pattern"),
        pytest.param("a.b", "v1", "a.*", None, id="only one subject of a pattern"),
        pytest.param("a.b.>", "v1.>", "a.>", None, id="only the longer subjects of a pattern"),
    ],
)
def test_where_a_subject_lies_in_a_stream_with_a_transform(
    source: str, destination: str, subject: str, lies_at: str | None
) -> None:
    assert stored(subject, {"src": source, "dest": destination}) == lies_at


def test_without_a_transform_it_lies_where_it_was_sent() -> None:
    assert stored("a.b", None) == stored("a.b", {}) == "a.b"


def test_what_no_pattern_matches_is_unseen() -> None:
    subjects = {"a.b": 2, "c.d": 3}
    assert subject_pattern.unseen(subjects, ["a.*"]) == {"c.d": 3}
    assert subject_pattern.unseen(subjects, [">"]) == {}
    assert subject_pattern.filters({}) == [">"]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("a.*", "*.b", True),
        ("a.b", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a", "b", False),
        ("a.>", "*.b", True),
        ("a.*", "*.b.c", False),
        ("a.>", "a", False),
        ("a.b", "a.b", True),
        ("a.b.>", "a.b", False),
        (">", "x", True),
        ("a.x", "b.>", False),
    ],
)
def test_which_patterns_overlap(one: str, other: str, both: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is both


# Every subject of up to four tokens out of three. Patterns name two of these: the third stands for all others.
TOKENS = "abc"
SUBJECTS = [".".join(one) for length in range(1, 5) for one in product(TOKENS, repeat=length)]
PATTERNS = st.lists(st.sampled_from("ab*"), min_size=1, max_size=3).flatmap(
    lambda tokens: st.sampled_from([".".join(tokens), ".".join([*tokens, ">"]), ">"])
)


def matched(pattern: str) -> set[str]:
    """The subjects that a pattern matches, found in another way."""
    text = "".join({"*": "[^.]+", ">": ".+", ".": "[.]"}.get(each, each) for each in pattern)
    return {one for one in SUBJECTS if re.fullmatch(text, one)}


@given(PATTERNS, PATTERNS)
def test_overlap_and_cover_are_what_the_matched_subjects_say(one: str, other: str) -> None:
    assert overlap(one, other) is bool(matched(one) & matched(other))
    assert covers(one, other) is (matched(other) <= matched(one))


@pytest.mark.parametrize(
    ("destination", "pattern"),
    [
        ("a.b", "a.b"),
        ("a.>", "a.>"),
        ("a.$1.b", "a.*.b"),
        pytest.param("a.$+1.$-1", "a.*.*", id="a number with a sign, as the server reads it"),
        ("a.{{wildcard(1)}}.{{ Wildcard( 2 ) }}", "a.*.*"),
        ("$JS.API", "$JS.API"),
        pytest.param("a.x$1", "a.x$1", id="only a whole token is replaced"),
        pytest.param("a.{{partition(3,1)}}.b", "a.>", id="a function"),
        pytest.param("a.{{split(1,.)}}.b", "a.>", id="a function with a dot in it"),
        pytest.param("{{splitfromleft(1,3)}}.b", ">", id="in the first place"),
    ],
)
def test_what_a_destination_can_give(destination: str, pattern: str) -> None:
    assert results(destination) == pattern
