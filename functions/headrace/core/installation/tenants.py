"""The administrator's list of tenants: what the channels of which namespaces may have beyond what everybody has.

It is the key `tenants` of the ConfigMap `config-ch-jetstream-defaults`, beside the defaults: a YAML list, whose entries
each name namespaces. All entries that match a namespace hold for it together, so that an entry can be added without a
look at the others. A namespace without an entry has nothing beyond the usual (ADR 050). Pure: the text is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel

from headrace.core.conditions import Condition
from headrace.core.installation import function_bounds
from headrace.core.installation.config_choice import DEFAULTS_NAME
from headrace.core.installation.config_maps import document
from headrace.core.installation.function_bounds import FunctionBounds, FunctionShare, Quantity
from headrace.core.manifest.field_types import Subjects, matching

KEY = "tenants"

_NAMESPACE = matching(r"[a-z0-9*-]{1,63}", "it should be a namespace, in which * stands for any characters")
_STREAM = matching(r"[^ \t\r\n.>/\\]{1,200}", "it should be the name of a stream, in which * stands for any characters")
_EXAMPLE = "a list, as `- {namespaces: [shop], subjects: [legacy.orders]}`"


class Tenant(BaseModel):
    """One entry. An unknown member is an error, not a remark: a misspelt bound must not pass for no bound."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", alias_generator=to_camel)

    namespaces: Annotated[tuple[Annotated[str, _NAMESPACE], ...], Field(strict=False, min_length=1)]
    """The namespaces that it is about; `*` stands for any characters."""
    subjects: Subjects = ()
    """Subjects that their channels may name, with NATS' wildcards."""
    streams: Annotated[tuple[Annotated[str, _STREAM], ...], Field(strict=False)] = ()
    """Streams that their channels may name; `*` stands for any characters."""
    error_data: bool = False
    """May they read what any address answers, where `HEADRACE_ERROR_DATA` is false (ADR 055)?"""
    functions: FunctionShare = FunctionShare()
    """What their functions may take of the system namespace."""
    max_bytes: dict[Literal["file", "memory"], Quantity] = Field(default_factory=dict)
    """What their streams may reserve together, by storage; several entries are as of `functions` (ADR 061)."""


class _List(RootModel[tuple[Tenant, ...]]):
    root: Annotated[tuple[Tenant, ...], Field(strict=False)]


@dataclass(frozen=True, slots=True)
class Tenants:
    """The whole list.

    Attributes:
        problem: why the present list can't be used; these are the last good entries then, or none.
    """

    entries: tuple[Tenant, ...] = ()
    problem: str = ""

    def of(self, namespace: str) -> tuple[Tenant, ...]:
        """The entries for a namespace, in the order of the list."""
        return tuple(one for one in self.entries if any(stands_for(each, namespace) for each in one.namespaces))

    def bounds(self, namespace: str) -> FunctionBounds:
        """What the functions of a namespace's channels may take of the system namespace (ADR 051)."""
        return function_bounds.of_shares(one.functions for one in self.of(namespace))

    def storage(self, namespace: str) -> dict[str, str]:
        """What the streams of a namespace's channels may reserve together, by storage; no bound for one left out."""
        return {storage: most for one in self.of(namespace) for storage, most in one.max_bytes.items()}

    @property
    def condition(self) -> Condition | None:
        """The condition that tells of a broken list; None while it can be read."""
        if not self.problem:
            return None
        kept = "the last good list holds" if self.entries else "no namespace has anything beyond the usual"
        return Condition("TenantsRead", False, "TenantsBroken", f"{self.problem}; {kept}", informative=True)


def parse(data: Mapping[str, str]) -> Tenants:
    """The list of a ConfigMap; empty when it has no such key.

    Args:
        data: the ConfigMap's, or the files of the directory where it is mounted.

    Raises:
        Misconfigured: naming ConfigMap, key and field, and quoting the value.
    """
    origin = f"ConfigMap {DEFAULTS_NAME}, key {KEY}"
    return Tenants(document(_List, data.get(KEY, ""), origin, empty=(), example=_EXAMPLE).root)


def stands_for(pattern: str, name: str) -> bool:
    """Does a pattern, in which `*` stands for any characters, match a name?"""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
