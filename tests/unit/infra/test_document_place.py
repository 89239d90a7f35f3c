"""A program fills its own place in a document, and no other."""

from __future__ import annotations

import pytest

from infra import document_place

PAGE = """\
before
<!-- a: written by `task a` -->
old
<!-- /a -->
between
<!-- b: written by `task b` -->
<!-- /b -->
after
"""


def test_a_text_takes_the_place_of_the_one_before() -> None:
    filled = document_place.filled(PAGE, "a", "new\nlines\n\n")

    assert filled == PAGE.replace("old\n", "new\nlines\n")
    assert document_place.content(filled, "a") == "new\nlines\n"


def test_an_empty_place_is_filled_too() -> None:
    assert document_place.content(document_place.filled(PAGE, "b", "1 < 2"), "b") == "1 < 2\n"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("nothing", id="no place"),
        pytest.param(PAGE + PAGE, id="two"),
        pytest.param(PAGE.replace("<!-- /a -->\n", ""), id="no end"),
    ],
)
def test_a_document_without_exactly_one_such_place_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="places named a"):
        document_place.filled(page, "a", "new")
