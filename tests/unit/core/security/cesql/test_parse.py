"""Expressions of CESQL as trees, and those that are refused."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.security.cesql.evaluate import Expression, Tree
from headrace.core.security.cesql.parse import DEEPEST, LONGEST, parse, size
from headrace.core.security.cesql.values import CesqlError


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        pytest.param("1 + 2 * 3", ["do", "+", ["is", 1], ["do", "*", ["is", 2], ["is", 3]]], id="rank"),
        pytest.param("8 - 4 - 2", ["do", "-", ["do", "-", ["is", 8], ["is", 4]], ["is", 2]], id="left to right"),
        pytest.param("4-1", ["do", "-", ["is", 4], ["is", 1]], id="a sign behind an operand is an operator"),
        pytest.param("--5", ["minus", ["is", -5]], id="a sign where an operand may stand is the number's"),
        pytest.param("a <> 'b'", ["do", "!=", ["get", "a"], ["is", "b"]], id="two words for unequal"),
        pytest.param("NOT a = b", ["do", "=", ["not", ["get", "a"]], ["get", "b"]], id="NOT binds first"),
        pytest.param("a not like 'x'", ["not", ["like", ["get", "a"], "x"]], id="not like"),
        pytest.param("a NOT IN (1, b)", ["not", ["in", ["get", "a"], [["is", 1], ["get", "b"]]]], id="not in"),
        pytest.param("a OR b AND c", ["logic", ["get", "a"], "OR", ["get", "b"], "AND", ["get", "c"]], id="logic"),
        pytest.param("EXISTS Subject", ["exists", "subject"], id="names are of lower case"),
        pytest.param("concat_ws(',', A1)", ["call", "CONCAT_WS", ["is", ","], ["get", "a1"]], id="functions of upper"),
        pytest.param("concat()", ["call", "CONCAT"], id="no arguments"),
        pytest.param(r"'it\'s' = \"\"", None, id="a backslash outside"),
        pytest.param(r"'it\'s'", ["is", "it's"], id="an escaped quote"),
        pytest.param("android", ["get", "android"], id="a name that begins with a keyword"),
        pytest.param("order", ["get", "order"], id="another"),
        pytest.param("1a", ["get", "1a"], id="a name that begins with a digit"),
    ],
)
def test_tree(text: str, tree: Tree | None) -> None:
    if tree is None:
        with pytest.raises(CesqlError):
            parse(text)
    else:
        assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "the end at character 1 is not expected there", id="nothing"),
        pytest.param("a = ", "the end at character 5 is not expected there", id="cut off"),
        pytest.param("a ==\tb", r"'=\tb' at character 4 is not expected there", id="an operator that is none"),
        pytest.param("a = 'x", "at character 5 is not expected there", id="an open text"),
        pytest.param("and = 1", "'and = 1' at character 1 is not expected there", id="a keyword as a name"),
        pytest.param("foo_bar = 1", "at character 1 is not expected there", id="an underscore in a name"),
        pytest.param("a LIKE b", "'b' at character 8 is not expected there", id="a pattern that is no text"),
        pytest.param("a IN ()", "')' at character 7 is not expected there", id="an empty set"),
        pytest.param("2147483648", "the number '2147483648' is beyond 32 bits", id="a number too large"),
        pytest.param("1" * 4096, "is beyond 32 bits", id="a number far too large"),
        pytest.param("a = 'ä'" + " " * LONGEST, f"has {LONGEST + 7} characters", id="too long"),
        pytest.param("-" * (DEEPEST + 2) + "a", "operations within one another, at most 64", id="too deep"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(CesqlError) as refused:
        parse(text)
    assert refused.value.kind == "parse"
    assert words in str(refused.value)


def test_the_smallest_number_is_one() -> None:
    assert parse("-2147483648") == ["is", -(2**31)]


def test_a_chain_of_terms_is_one_operation_however_long() -> None:
    text = " OR ".join(f"a='{number}'" for number in range(300))
    assert size(parse(text)) == 901
    assert Expression(parse(text)).evaluate({"a": "299"}) == (True, None)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 2000 + "a" + ")" * 2000, id="parentheses"),
        pytest.param("NOT " * 1000 + "a", id="NOT"),
        pytest.param("(" * 4000, id="open"),
        pytest.param("ABS(" * 800 + "1" + ")" * 800, id="calls"),
        pytest.param("a IN (" * 600 + "1" + ")" * 600, id="sets"),
        pytest.param("1+" * 2000 + "1", id="a long sum"),
        pytest.param("'" + "\\" * 4000, id="backslashes"),
        pytest.param("''" * 2000, id="quotes"),
        pytest.param("a" * 4096, id="a long name"),
    ],
)
def test_hostile_texts_end_soon_and_never_crash(text: str) -> None:
    began = time.process_time()
    with suppress(CesqlError):
        parse(text)
    assert time.process_time() - began < 1.0


@given(st.text(alphabet="ab01 ()'\"%_\\,=<>!+-*/ANDORXNTLIKESF", max_size=60))
def test_any_text_is_an_expression_or_refused_and_evaluation_never_crashes(text: str) -> None:
    try:
        tree = parse(text)
    except CesqlError:
        return
    value, error = Expression(tree).evaluate({"a": "1", "b": "true"})
    assert type(value) in (str, int, bool)
    assert Expression(tree).passes({"a": "1", "b": "true"}) is (error is None and value is True)
