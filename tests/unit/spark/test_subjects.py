"""Filters of subjects, as NATS reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.subject_pattern import overlap
from pyspark_jetstream.client.subjects import includes, is_filter, matching, without_included

tokens = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=3)
filters = st.one_of(tokens.map(".".join), tokens.map(lambda some: ".".join([*some, ">"])), st.just(">"))
subjects = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    ("text", "legal"),
    [("a.b", True), ("*.b.>", True), (">", True), ("", False), ("a.", False), ("a b", False), (">.a", False)],
)
def test_what_may_stand_as_a_filter(text: str, legal: bool) -> None:
    assert is_filter(text) == legal


@pytest.mark.parametrize(
    ("one", "subject", "matches"),
    [("a.*", "a.b", True), ("a.*", "a.b.c", False), ("a.>", "a.b.c", True), ("a.>", "a", False), ("a.b", "axb", False)],
)
def test_what_a_filter_matches(one: str, subject: str, matches: bool) -> None:
    assert matching([one])(subject) == matches


@given(filters, filters, subjects)
def test_a_filter_that_includes_another_matches_all_that_it_matches(wide: str, narrow: str, subject: str) -> None:
    if includes(wide, narrow) and matching([narrow])(subject):
        assert matching([wide])(subject)


@given(filters, filters, subjects)
def test_filters_that_both_match_a_subject_overlap(one: str, other: str, subject: str) -> None:
    if matching([one])(subject) and matching([other])(subject):
        assert overlap(one, other)


@given(st.lists(filters, min_size=1, max_size=4), subjects)
def test_without_the_included_ones_the_same_subjects_match(some: list[str], subject: str) -> None:
    kept = without_included(some)
    assert matching(kept)(subject) == matching(some)(subject)
