"""Values and errors of expressions, beyond CESQL's own cases (tests/contract/core/test_cesql_cases.py)."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.security.cesql.evaluate import Expression
from headrace.core.security.cesql.parse import parse
from headrace.core.security.cesql.values import LEAST, MOST, Value
from tests.support.programs import repository

NUMBERS = st.integers(LEAST, MOST)


def evaluated(text: str, **attributes: Value) -> tuple[Value, str]:
    value, error = Expression(parse(text)).evaluate(attributes)
    return value, "" if error is None else error.kind


@pytest.mark.parametrize(
    ("text", "value", "error"),
    [
        pytest.param("TRUE AND FALSE OR TRUE", True, "", id="AND and OR are of one rank and bind to the right"),
        pytest.param("FALSE AND TRUE OR TRUE", False, "", id="so this is FALSE AND (TRUE OR TRUE)"),
        pytest.param("TRUE XOR FALSE AND missing", True, "", id="XOR with a term that ends early"),
        pytest.param("2147483647 + 1", LEAST, "", id="beyond 32 bits it begins anew"),
        pytest.param("- -2147483648", LEAST, "", id="so does the negation of the smallest"),
        pytest.param("-7 / 2", -3, "", id="division goes towards zero"),
        pytest.param("-7 % 2", -1, "", id="the rest has the sign of the left"),
        pytest.param("7 % 0", 0, "math", id="no rest of zero"),
        pytest.param("missing", False, "missingAttribute", id="an attribute that is not there"),
        pytest.param("missing + 1", 0, "missingAttribute", id="zero of the operation's type"),
        pytest.param("LEFT(LEFT('abc', -1), 1)", "", "functionEvaluation", id="an argument's error is not its value"),
        pytest.param("NOPE(1)", False, "missingFunction", id="no such function"),
        pytest.param("LENGTH('ä')", 1, "", id="characters, not bytes"),
        pytest.param("TRIM('\x1c a ')", "\x1c a", "", id="control characters are no blanks"),
        pytest.param("INT('1_000')", 0, "cast", id="a number of Python only"),
        pytest.param("INT(' 1')", 0, "cast", id="a blank before a number"),
        pytest.param("INT('٣')", 0, "cast", id="digits of another script"),
        pytest.param("INT('00000000000000000007')", 7, "", id="zeros before a number"),
        pytest.param("1 IN ('x')", False, "cast", id="a member that can't be cast"),
        pytest.param("EXISTS id AND EXISTS other", False, "", id="required attributes are there"),
    ],
)
def test_value(text: str, value: Value, error: str) -> None:
    found = evaluated(text)
    assert (type(found[0]), *found) == (type(value), value, error)


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.lists(st.sampled_from(["AND", "OR", "XOR"]), min_size=6))
def test_a_chain_is_what_its_parentheses_would_say(terms: list[bool], words: list[str]) -> None:
    chain = str(terms[-1])
    flat = " ".join(itertools.chain(*zip(map(str, terms[:-1]), words, strict=False), [chain]))
    for term, word in reversed([*zip(terms[:-1], words, strict=False)]):
        chain = f"({term} {word} ({chain}))"
    assert evaluated(flat) == evaluated(chain)


@given(NUMBERS, NUMBERS)
def test_division_and_rest_make_up_the_number(one: int, other: int) -> None:
    if other == 0:
        return
    quotient = evaluated("one / other", one=one, other=other)[0]
    rest = evaluated("one % other", one=one, other=other)[0]
    assert isinstance(rest, int)
    assert abs(rest) < abs(other)
    assert evaluated("quotient * other + rest", quotient=quotient, other=other, rest=rest)[0] == one


def test_a_text_beyond_all_bounds_is_not_made() -> None:
    inner = "CONCAT(a,a,a,a,a,a,a,a)"
    assert evaluated(f"LENGTH(CONCAT({','.join([inner] * 8)}))", a="x" * 8192) == (0, "functionEvaluation")


def test_only_true_passes() -> None:
    assert [Expression(parse(text)).passes({"a": "true"}) for text in ("TRUE", "1", "'true'", "a", "NOT a")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_evaluation_needs_no_parser() -> None:
    program = "import sys, headrace.core.security.cesql.evaluate; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=repository.ROOT / "functions")
