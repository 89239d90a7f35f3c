"""How much of a namespace that is not theirs the channels of one namespace may take: their functions run there.

The system namespace is nobody's quota, so an administrator bounds each tenant's share of it (`docs/adr/051`). Knows
quantities as Kubernetes writes them. Pure; `headrace.core.channel` draws the conclusions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from headrace.core.installation.config_choice import DEFAULTS_NAME
from headrace.core.manifest.field_words import SENTENCE

MOST_FUNCTIONS, MOST_SCALE = 100, 20
MOST_RESOURCES = {"cpu": "2", "memory": "1Gi"}
TemplateField = Literal[
    "annotations", "labels", "nodeSelector", "affinity", "tolerations", "priorityClassName", "imagePullSecrets"
]
TEMPLATE_FIELDS: tuple[str, ...] = get_args(TemplateField)
"""The fields of `deploymentSpecTemplate` beside `resources`, as the manifest has them."""

_SUFFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3}
_SUFFIXES |= {letter: 1000.0**power for power, letter in enumerate("MGTPE", 2)}
_SUFFIXES |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?")


def number(quantity: str | int) -> float:
    """The number that a quantity stands for: `500m` is 0.5, `1Gi` is 2^30; ValueError for no quantity."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity")
    return float(found[1]) * _SUFFIXES[found[2] or ""]


def _checked(value: object) -> str:
    """A quantity in YAML, where it may be a number; 0 would be no bound, since it is none to the kubelet."""
    try:
        if isinstance(value, str | int | float) and number(str(value)) > 0:
            return str(value)
    except ValueError:
        pass
    raise PydanticCustomError(SENTENCE, "it should be a quantity, as 2, 500m or 1Gi")


Quantity = Annotated[str, BeforeValidator(_checked)]


class FunctionShare(BaseModel):
    """The member `functions` of an entry for a tenant. Where several entries for a namespace say the same member, the
    last one counts: a bound may be lower than the usual one.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel)

    most: Annotated[int, Field(ge=0)] | None = None
    """Functions of their own that the channels of the namespace may have in the system namespace."""
    max_scale: Annotated[int, Field(ge=1)] | None = None
    """The most that `headrace.dev/max-scale` may ask for."""
    resources: dict[str, Quantity] | None = None
    """The limits that a container there may have."""
    template: Annotated[tuple[TemplateField, ...], Field(strict=False)] | None = None
    """Fields of `deploymentSpecTemplate` that are obeyed there, beside `resources`."""


@dataclass(frozen=True, slots=True)
class FunctionBounds:
    """The share of one namespace's channels.

    Attributes:
        functions: functions of their own there: one for each subscriber, and one more for a channel that has its own
            `receive`.
        max_scale: leases of one subscriber at once, wherever its function runs: one process of the operator holds
            them all.
        resources: of each container, by name; what is not named here can't be asked for.
        template: the fields of `deploymentSpecTemplate` that are obeyed there, beside `resources`.
    """

    functions: int = MOST_FUNCTIONS
    max_scale: int = MOST_SCALE
    resources: Mapping[str, str | int] = field(default_factory=lambda: MOST_RESOURCES)
    template: frozenset[str] = frozenset()


def of_shares(shares: Iterable[FunctionShare]) -> FunctionBounds:
    """The bounds that these entries make together."""
    said: dict[str, Any] = {}
    for one in shares:
        said |= one.model_dump(exclude_none=True)
    usual = FunctionBounds()
    return FunctionBounds(
        functions=said.get("most", usual.functions),
        max_scale=said.get("max_scale", usual.max_scale),
        resources=said.get("resources", usual.resources),
        template=frozenset(said.get("template", usual.template)),
    )


def opens(words: str) -> str:
    """Who can lift a bound, and where."""
    return f"or an administrator opens it: functions: {{{words}}} in key tenants of ConfigMap {DEFAULTS_NAME}"
