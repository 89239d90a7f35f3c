"""Where and how functions run, as annotations ask: a channel's for all its subscribers, a Subscription's for itself.

Knows the annotations and their values. `headrace.core.channel.children` draws the conclusions for a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted

RUNTIME = "headrace.dev/runtime"
ISOLATION = "headrace.dev/isolation"
KEDA = "headrace.dev/keda"
SCOPE = "eventing.knative.dev/scope"
"""Knative's own annotation, for channels only."""


class Runtime(StrEnum):
    """KNATIVE: Knative Services, which scale to zero. DEPLOYMENT: plain Deployments."""

    KNATIVE = "knative"
    DEPLOYMENT = "deployment"


class Isolation(StrEnum):
    """SUBSCRIBER: a `forward` of its own for each subscriber. SHARED: one for all of a scope."""

    SUBSCRIBER = "subscriber"
    SHARED = "shared"


class Scope(StrEnum):
    """CLUSTER: the functions of all channels are in the system namespace. NAMESPACE: in that of the channel."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"


class Keda(StrEnum):
    """Whether KEDA scales a Deployment that pulls without end."""

    YES = "true"
    NO = "false"


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """The placement that the author asks for; None leaves it to the installation."""

    runtime: Runtime | None = None
    isolation: Isolation | None = None
    keda: Keda | None = None

    def to_json(self) -> dict[str, object]:
        """Its members in the JSON of a subscriber; None has no member."""
        asked = {"runtime": self.runtime, "isolation": self.isolation, "keda": self.keda}
        return {key: str(value) for key, value in asked.items() if value is not None}


def from_json(body: Mapping[str, object]) -> PlacementSpec:
    """The inverse of `PlacementSpec.to_json`; ValueError for an unknown value."""
    return PlacementSpec(
        Runtime(str(body["runtime"])) if "runtime" in body else None,
        Isolation(str(body["isolation"])) if "isolation" in body else None,
        Keda(str(body["keda"])) if "keda" in body else None,
    )


def from_annotations(
    annotations: Mapping[str, str], default: PlacementSpec | None = None, *, path: str = "metadata"
) -> PlacementSpec:
    """The placement that annotations ask for.

    Args:
        default: for whatever they leave open; for a Subscription, the channel's.
        path: of the object with the annotations, for the error.

    Raises:
        InvalidSpec: naming the annotation and quoting its value.
    """
    default = default or PlacementSpec()
    return PlacementSpec(
        _one_of(Runtime, annotations, RUNTIME, path) or default.runtime,
        _one_of(Isolation, annotations, ISOLATION, path) or default.isolation,
        _one_of(Keda, annotations, KEDA, path) or default.keda,
    )


def scope(annotations: Mapping[str, str]) -> Scope:
    """The scope of a channel.

    Raises:
        InvalidSpec: the annotation names neither of the two.
    """
    return _one_of(Scope, annotations, SCOPE, "metadata") or Scope.CLUSTER


Choice = TypeVar("Choice", bound=StrEnum)


def _one_of(choices: type[Choice], annotations: Mapping[str, str], name: str, path: str) -> Choice | None:
    text = annotations.get(name)
    if text is None:
        return None
    if text not in list(choices):
        field = f"{path}.annotations[{name}]"
        raise InvalidSpec(f"{field} is {quoted(text)}: it should be {' or '.join(choices)}", field=field)
    return choices(text)
