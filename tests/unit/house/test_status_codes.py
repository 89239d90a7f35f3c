"""docs/status-codes.md: each row is provoked by the test that it names, and no status of the code is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "status-codes.md").read_text()
ROWS = re.findall(r"^\| (\d{3}) \|.*\| `([\w/]+\.py)::(test_\w+)` \|$", DOCUMENT, re.MULTILINE)
FUNCTIONS = ROOT / "functions" / "headrace"


@pytest.mark.parametrize(("status", "file", "test"), ROWS, ids=lambda value: str(value)[:60])
def test_a_row_names_a_test_that_sees_its_status(status: str, file: str, test: str) -> None:
    module = ast.parse((ROOT / "tests" / "contract" / file).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in module.body if isinstance(node, functions) and node.name == test]
    assert found, f"tests/contract/{file} has no {test}"
    assert re.search(rf"\b{status}\b", ast.unparse(found[0])), f"{test} says nothing of {status}"


def test_every_row_names_a_test() -> None:
    assert len(ROWS) == len(re.findall(r"^\| \d{3} ", DOCUMENT, re.MULTILINE)) > 20


def test_every_status_of_the_code_is_in_the_document() -> None:
    sources = [
        *(FUNCTIONS / "receive").glob("*.py"),
        *(FUNCTIONS / "server").glob("*.py"),
        *(FUNCTIONS / "reconcile").glob("*.py"),
        *(FUNCTIONS / "host").glob("*.py"),
    ]
    sources += [FUNCTIONS / "io" / name for name in ("web.py", "jetstream/pub_acks.py", "jetstream/data_path.py")]
    code = "\n".join(source.read_text() for source in sources)
    answered = set(re.findall(r"(?:problem|Response|json_response|_stop|_refuse)\((\d{3})\b", code))
    answered |= set(re.findall(r"(?:\bstatus=|_expire, )(\d{3})\b", code))

    assert {"202", "414", "507"} <= answered
    assert {status for status in answered if not re.search(rf"\b{status}\b", DOCUMENT)} == set()
