"""The results in what a Go test binary prints under `-test.v`.

Knows the marks of Go's testing package, and the two habits of Knative's test framework that are needed to read a run:
it lists the steps of a feature, with their requirement levels, before it runs them, and runs each step as a subtest
whose name ends in `/<timing>/<name of the step>`. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
_NOW = re.compile(r"^=== (?:RUN|CONT|NAME|PAUSE)\s+(?P<name>.+)$")
_RESULT = re.compile(r"^\s*--- (?P<how>PASS|FAIL|SKIP): (?P<name>.+) \((?P<seconds>[\d.]+)s\)$")
_STEP = re.compile(
    r'"name": (?P<name>"(?:[^"\\]|\\.)*"),\s*"states": "[^"]*",\s*'
    r'"levels": "(?P<level>[^"]*)",\s*"timing": "(?P<timing>\w+)"'
)
_ORDINAL = re.compile(r"#\d\d$")
# A log line of a test begins with where it was written.
_WHERE = re.compile(r"^\s*[\w./-]+\.go:\d+: ?")
TIMINGS = ("Prerequisite", "Setup", "Requirement", "Assert", "Teardown")


@dataclass
class Result:
    """How one test or subtest ended.

    Attributes:
        name: its whole path.
        words: what it logged, the first line of each message, without its place in the sources.
    """

    name: str
    how: str = ""
    seconds: float = 0.0
    words: list[str] = field(default_factory=list)

    @property
    def test(self) -> str:
        """The function that it is part of."""
        return self.name.partition("/")[0]

    def step(self, timing: str) -> str:
        """The name of the step that it is, as Go writes it in a path; empty when it is no step of this timing."""
        _, found, step = self.name.partition(f"/{timing}/")
        return _ORDINAL.sub("", step) if found else ""


@dataclass(frozen=True)
class Output:
    """A whole run.

    Attributes:
        levels: of the steps that assert something, by their names as they stand in a path: `MUST`, `SHOULD NOT` …
        out_of_time: was it ended before its end?
    """

    results: Mapping[str, Result]
    levels: Mapping[str, str]
    out_of_time: bool

    def leaves(self) -> list[Result]:
        """Those that have no part of their own."""
        parents = {name.rpartition("/")[0] for name in self.results}
        parents |= {up for name in parents for up in _above(name)}
        return [one for name, one in self.results.items() if name not in parents]


def read(lines: Iterable[str]) -> Output:
    """Read a run, also one that was cut off: what has not ended is a failure."""
    results: dict[str, Result] = {}
    now: Result | None = None
    text = []
    for raw in lines:
        line = raw.rstrip("\n")
        text.append(line)
        if found := _NOW.match(line):
            now = results.setdefault(found["name"], Result(found["name"]))
        elif found := _RESULT.match(line):
            one = results.setdefault(found["name"], Result(found["name"]))
            one.how, one.seconds = found["how"], float(found["seconds"])
            # What follows belongs to it, unless another is named.
            now = one
        elif now is not None and (found := _WHERE.match(line)):
            now.words.append(line[found.end() :].strip())
    for one in results.values():
        one.how = one.how or FAIL
    out_of_time = any(line.startswith("panic: test timed out") for line in text)
    return Output(results, _levels("\n".join(text)), out_of_time)


def in_path(name: str) -> str:
    """A name as Go writes it in the path of a subtest."""
    return "".join("_" if letter.isspace() else letter for letter in name)


def _levels(text: str) -> dict[str, str]:
    found = _STEP.finditer(text)
    return {in_path(json.loads(one["name"])): one["level"] for one in found if one["timing"] == "Assert"}


def _above(name: str) -> Iterable[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
