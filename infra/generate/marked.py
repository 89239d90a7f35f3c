"""The marks in `infra/base` that say what the Helm chart writes in the place of a value.

`key: value  # chart: TEMPLATE` becomes `key: TEMPLATE`, and what is indented below it goes; a line `# chart+ TEMPLATE`
becomes TEMPLATE. To kustomize and to people both are comments. The namespace is the release's wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

NAMESPACE = "knative-eventing"
_VALUE = re.compile(r"^(?P<start> *(?:- )?[\w.-]+:)(?: .*?)?  # chart: (?P<template>.+)$")
_LINE = re.compile(r"^(?P<indent> *)# chart\+ (?P<template>.+)$")
_REPLACED = "{{ .Release.Namespace }}"


def plain(text: str) -> str:
    """Without the marks: what the API server is given."""
    kept = (line for line in text.splitlines() if not _LINE.match(line))
    return "".join(re.sub(r"  # chart: .+$", "", line) + "\n" for line in kept)


def template(text: str) -> str:
    """As a template of the chart."""
    return "".join(f"{line}\n" for line in _lines(text.replace(NAMESPACE, _REPLACED).splitlines()))


def _lines(lines: list[str]) -> Iterator[str]:
    below: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if below is not None and line.strip() and indent > below:
            continue
        below = None
        if found := _LINE.match(line):
            yield found["indent"] + found["template"]
        elif found := _VALUE.match(line):
            below = indent
            yield f"{found['start']} {found['template']}"
        else:
            assert "# chart" not in line or (line.lstrip().startswith("# ") and "`# chart" in line), (
                f"a bad mark: {line}"
            )
            yield line
