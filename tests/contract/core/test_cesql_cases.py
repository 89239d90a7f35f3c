"""CESQL's own compatibility cases (TCK), as the SDK that Knative uses ships them, against our parser and evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headrace.core.security.cesql.evaluate import Expression
from headrace.core.security.cesql.parse import parse
from headrace.core.security.cesql.values import CesqlError
from infra.programs import go_programs, tool_binaries

# The event of cases that bring none: `FullEvent` of the SDK's package `test`.
FULL = {
    "specversion": "1.0",
    "id": "full-event",
    "type": "com.example.FullEvent",
    "source": "http://example.com/source",
    "subject": "topic",
    "dataschema": "http://example.com/schema",
    "datacontenttype": "text/json",
    "time": "2020-03-21T12:34:56.78Z",
    "exbool": True,
    "exint": 42,
    "exstring": "exstring",
    "exbinary": "AAECAw==",
    "exurl": "http://example.com/source",
    "extime": "2020-03-21T12:34:56.78Z",
}


class _AsWritten(yaml.SafeLoader):
    """A loader for which a time is a text."""


_AsWritten.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


def _cases() -> list[Any]:
    folder = go_programs.module_folder(tool_binaries.CESQL) / "test" / "tck"
    found = []
    for file in sorted(folder.glob("*.yaml")):
        listed = yaml.load(file.read_text(encoding="utf-8"), _AsWritten)
        found += [pytest.param(case, id=f"{listed['name']}: {case['name']}") for case in listed["tests"]]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", _cases())


def test_case(case: dict[str, Any]) -> None:
    text = str(case["expression"]) if not isinstance(case["expression"], bool) else str(case["expression"]).upper()
    if case.get("error") == "parse":
        with pytest.raises(CesqlError, match="is not expected there"):
            parse(text)
        return
    event = {**case.get("event", FULL), **case.get("eventOverrides", {})}
    value, error = Expression(parse(text)).evaluate(event)
    assert (type(value), value) == (type(case["result"]), case["result"])
    assert (error and error.kind) == case.get("error")


def test_no_file_of_cases_was_left_out() -> None:
    assert len(_cases()) == 275
