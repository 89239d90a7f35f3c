"""The page of a new user's first minutes: its commands are those of the tutorials, and its table adds up."""

from __future__ import annotations

import pytest

from bench import from_clone
from bench.from_clone import Row
from tests.support.programs import tutorial
from tests.support.programs.tutorial import TUTORIALS, Step


@pytest.mark.parametrize(("name", "reached"), [(name, reached) for name, reached, _ in from_clone.WAYS])
def test_the_page_has_each_command_of_the_tutorials_and_what_is_reached(name: str, reached: str) -> None:
    page = from_clone.PAGE.read_text()

    for step in tutorial.steps((TUTORIALS / f"{name}.md").read_text()):
        assert from_clone.worded(step) in page, "run `task from-clone`"
    assert reached in page


def test_what_is_reached_stands_at_the_last_step_that_shows_it() -> None:
    took = [(Step("second", "", "attempt 1: 200\n"), 1.0), (Step("second", "", "attempt 1: 200\n"), 2.0)]

    rows = from_clone.walked(took, "**done**", "attempt 1: 200")

    assert [row.done for row in rows] == ["the second terminal shows it", "the second terminal shows it: **done**"]


def test_a_command_is_one_line_of_the_table() -> None:
    assert from_clone.worded(Step("", "curl -si \\\n  -d x", "")) == "`curl -si -d x`"
    assert from_clone.worded(Step("first", "^C", "")) == "Ctrl-C in the first terminal"
    assert from_clone.worded(Step("", 'headrace doctor || echo "status $?"', "")).count("\\|") == 2


def test_the_table_has_both_turns_beside_one_another_and_adds_up() -> None:
    cold, warm = [Row("`a`", 1.0), Row("`b`", 61.0)], [Row("`a`", 0.5), Row("`b`", 2.0)]

    lines = from_clone.table([cold, warm], {"cores": "2"}).splitlines()

    assert lines[0] == "cores 2"
    assert lines[-1] == "| `b` | 61.0 s | 62 s | 2.0 s | 2 s |"
