"""One document while it is converted: fields by path, with errors that name them, and the notes that are made of it."""

from __future__ import annotations

import re
from typing import Any

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted

_GO_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class ForeignObject:
    """One document of another system.

    Attributes:
        notes: the parts without an equal, in words; advice: what a person must see to, though no part is lost.
        shared: facts of documents that concern others of the same run.
    """

    def __init__(self, where: str, body: dict[str, Any], shared: dict[str, Any] | None = None) -> None:
        self.notes: list[str] = []
        self.advice: list[str] = []
        self.shared = {} if shared is None else shared
        self._where = where
        self._body = body

    @property
    def namespace(self) -> str:
        return self.text("metadata.namespace") or "default"

    @property
    def name(self) -> str:
        name = self.text("metadata.name")
        if not name:
            raise self.fault("metadata.name", "is missing: give the object its name")
        return name

    @property
    def metadata(self) -> dict[str, Any]:
        """Labels and annotations, without those of kubectl and of the server."""
        kept: dict[str, Any] = {}
        for key in ("labels", "annotations"):
            entries = {k: v for k, v in self.object(f"metadata.{key}").items() if not str(k).startswith("kubectl.")}
            if entries:
                kept[key] = entries
        return kept

    def note(self, words: str) -> None:
        """Note a part that has no equal."""
        self.notes.append(words)

    def advise(self, words: str) -> None:
        """Note what a person has to do or know about a part that has its equal."""
        self.advice.append(words)

    def fault(self, path: str, words: str) -> InvalidSpec:
        return InvalidSpec(f"{self._where}: {path} {words}", field=path)

    def value(self, path: str) -> Any:
        """The value at a path; None when there is none. `a.b` only, no lists."""
        found: Any = self._body
        for key in path.split("."):
            if not isinstance(found, dict):
                return None
            found = found.get(key)
        return found

    def text(self, path: str) -> str:
        found = self.value(path)
        if found is None:
            return ""
        if not isinstance(found, str):
            raise self.fault(path, f"is {quoted(found)}: give text")
        return found

    def number(self, path: str) -> int | None:
        """A whole number, also where it is written as text, as in Kyma's and Argo's maps."""
        found = self.value(path)
        if found is None:
            return None
        if isinstance(found, bool) or not re.fullmatch(r"-?\d+", str(found)):
            raise self.fault(path, f"is {quoted(found)}: give a whole number")
        return int(found)

    def object(self, path: str) -> dict[str, Any]:
        found = self.value(path)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise self.fault(path, f"is {quoted(found)}: give an object")
        return found

    def objects(self, path: str) -> list[tuple[str, dict[str, Any]]]:
        """The members of a list, each with its path."""
        found = self.value(path) or []
        if not isinstance(found, list):
            raise self.fault(path, f"is {quoted(found)}: give a list")
        for index, each in enumerate(found):
            if not isinstance(each, dict):
                raise self.fault(f"{path}[{index}]", f"is {quoted(each)}: give an object")
        return [(f"{path}[{index}]", each) for index, each in enumerate(found)]

    def within(self, path: str, body: dict[str, Any]) -> ForeignObject:
        """A part of the object: its faults bear its path, and its notes are noted here."""
        part = ForeignObject(f"{self._where}: {path}", body)
        part.notes, part.advice = self.notes, self.advice
        return part


def seconds(text: str) -> float | None:
    """The seconds of a Go duration such as `1h30m`; None when the text is none."""
    if not re.fullmatch(r"(\d+(?:\.\d+)?(?:ms|s|m|h))+", text):
        return None
    return sum(float(number) * _GO_UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text))


def iso(total: float) -> str:
    """Seconds as an ISO 8601 duration: `PT1.5S`."""
    return f"PT{total:g}S"
