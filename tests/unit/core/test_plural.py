"""One thing is one thing: no output says `1 events`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from headrace.core.plural import counted

ROOT = Path(__file__).parents[3]
PLACES = ("operator", "functions", "spark")
NOUNS = {
    *("events", "channels", "Subscriptions", "subscribers", "streams", "consumers", "messages", "replicas", "retries"),
    *("others", "faults", "rows", "tasks", "leases", "attempts"),
}
BETWEEN = {"parked", "stuck", "pending", "other", "more", "unsettled", "new"}
# What stands before a bound or a share, of which one is as good as many: `at most 5 events`, `2 of 3 subscribers`.
BOUNDS = ("at most ", "more than ", " of ")


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ("event",), "0 events"),
        (1, ("event",), "1 event"),
        (2, ("event",), "2 events"),
        (1, ("retry", "retries"), "1 retry"),
        (2, ("retry", "retries"), "2 retries"),
        (1, ("event waits", "events wait"), "1 event waits"),
        (-1, ("event",), "-1 events"),
    ],
)
def test_a_number_and_its_noun(count: int, words: tuple[str, ...], said: str) -> None:
    assert counted(count, *words) == said


def test_no_text_puts_a_plural_behind_a_bare_number() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for place in PLACES
        for file in sorted((ROOT / place).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr) and doubtful(node)
    ]
    assert found == [], "say it with headrace.core.plural.counted"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ('f"{n} events"', True),
        ('f"has {len(found)} parked events"', True),
        ('f"at most {n} events"', False),
        ('f"{done} of {n} subscribers"', False),
        ("f\"{counted(n, 'event')} are\"", False),
        ('f"{name} events"', True),
        ('f"{n:g} events"', True),
        ('f"{n}, events"', False),
    ],
)
def test_what_is_doubtful(text: str, is_one: bool) -> None:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.JoinedStr)
    assert doubtful(node) is is_one


def doubtful(node: ast.JoinedStr) -> bool:
    """Does a value stand in it with a plural behind it?"""
    before = ""
    for part, behind in zip(node.values, [*node.values[1:], None], strict=True):
        if isinstance(part, ast.Constant):
            before = str(part.value)
            continue
        said = isinstance(part, ast.FormattedValue) and ast.unparse(part.value).startswith("counted(")
        text = str(behind.value) if isinstance(behind, ast.Constant) else ""
        if text.startswith(" ") and not said and not before.endswith(BOUNDS):
            words = re.split(r"[ ,.:;)]+", text.strip())[:2]
            if words[0] in NOUNS or (words[0] in BETWEEN and words[-1] in NOUNS):
                return True
        before = ""
    return False
