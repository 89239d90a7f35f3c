"""The patterns of LIKE against a slow reading of them, and against patterns made to be slow."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.security.cesql.like import matcher


def _slow(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_slow(text[start:], pattern[1:]) for start in range(len(text) + 1))
    if pattern[:2] in (r"\%", r"\_"):
        return text[:1] == pattern[1] and _slow(text[1:], pattern[2:])
    return bool(text) and pattern[0] in ("_", text[0]) and _slow(text[1:], pattern[1:])


@given(st.text(alphabet="ab%_\\", max_size=9), st.text(alphabet="ab%_\\", max_size=7))
def test_a_pattern_matches_what_its_letters_say(text: str, pattern: str) -> None:
    assert matcher(pattern)(text) is _slow(text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        pytest.param("_", "ä", True, id="a character, not a byte"),
        pytest.param("a%", "a\nb", True, id="over lines"),
        pytest.param(".*", "ab", False, id="no regular expression"),
        pytest.param("ab%ba", "aba", False, id="beginning and end do not share a character"),
    ],
)
def test_matches(pattern: str, text: str, *, matches: bool) -> None:
    assert matcher(pattern)(text) is matches


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("%a" * 2000 + "b", id="many pieces"),
        pytest.param("%" + "a_" * 2000 + "b%", id="a long piece of any characters"),
        pytest.param("%" + "a" * 4000 + "b%", id="a long piece"),
        pytest.param("%" * 4096, id="nothing but %"),
    ],
)
def test_no_pattern_is_slow_on_the_longest_attribute(pattern: str) -> None:
    matches = matcher(pattern)
    began = time.process_time()
    matches("a" * 64 * 1024)
    assert time.process_time() - began < 0.5
