"""The common ground of all objects inside a manifest: strict types, Kubernetes' idea of absence, and rules.

A rule is one sentence with two halves, a CEL expression for the API server and a predicate for ourselves, so that
`kubectl apply` and `reconcile` refuse the same manifests; `tests/control_plane` holds the two together. A fixed field
has the first half only: the API server alone has the old object beside the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

RULE = "rule"
"""The type of the error of a broken rule; its context names the `field`, quotes its `value`, and `says` what to do."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that must hold in a part.

    Attributes:
        field: the field to blame, as the manifest writes it; its path may lead into the part's own parts.
        cel: the condition over `self`, the part.
        holds: the same over the parsed part.
        says: why, and what to do about it.
    """

    field: str
    cel: str
    holds: Callable[[Any], bool]
    says: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A condition that must hold between a part (`self`) and its earlier version (`oldSelf`)."""

    field: str
    cel: str
    says: str


# The page of fields nests half as deep; an author may nest deeper than Python can follow.
_DEEPEST = 8


class Part(BaseModel):
    """One object of a manifest. Unknown fields are ignored, as a newer CRD may have them."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel)

    hollow: ClassVar[tuple[str, ...]] = ()
    """Objects, or lists of them, that count as absent when nothing in them says anything."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    fixed: ClassVar[tuple[Fixed, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_absent(cls, data: Any) -> Any:
        """Null means absent, as in Kubernetes; so does empty text, which Go's clients write for an unset field."""
        if not isinstance(data, dict):
            return data
        needed = {field.alias for field in cls.model_fields.values() if field.is_required()}
        given = {key: value for key, value in data.items() if value is not None and (value != "" or key in needed)}
        return {key: value for key, value in given.items() if key not in cls.hollow or not is_hollow(value)} | {
            key: [one for one in value if not is_hollow(one)]
            for key, value in given.items()
            if key in cls.hollow and isinstance(value, list)
        }

    @model_validator(mode="after")
    def _obeys_its_rules(self) -> Self:
        for rule in self.rules:
            if not rule.holds(self):
                context = {"field": rule.field, "value": _value(self, rule.field), "says": rule.says}
                raise PydanticCustomError(RULE, "{field}: {says}", context)
        return self


def is_hollow(value: Any, depth: int = _DEEPEST) -> bool:
    """Is it an object whose members are all empty texts, as the proposal's page of fields has them?"""
    if not isinstance(value, Mapping) or not value or not depth:
        return False
    return all(_empty(one, depth - 1) for one in value.values())


def _empty(value: Any, depth: int) -> bool:
    if value in (None, "", [], {}) or (isinstance(value, list) and all(one == "" for one in value)):
        return True
    return is_hollow(value, depth)


def _value(part: Any, path: str) -> Any:
    """The author's value there, or None."""
    owner, name, value = part, "", part
    for step in path.split("."):
        name = next(name for name, field in type(value).model_fields.items() if field.alias == step)
        if name not in value.model_fields_set:
            return None
        owner, value = value, getattr(value, name)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    dumped = owner.model_dump(by_alias=True, exclude_unset=True, mode="json", include={name})
    return next(iter(dumped.values()))
