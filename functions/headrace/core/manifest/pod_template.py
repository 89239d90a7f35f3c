"""The looks of the pods of a channel's functions, as its author wrote them: `spec.deploymentSpecTemplate`.

It has the Go channel's fields, and tolerations, priorityClassName and imagePullSecrets. Kubernetes' own shapes are
written out, so that a typo is refused; their meaning is the scheduler's.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from headrace.core.manifest.field_types import Texts
from headrace.core.manifest.part import Part

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
)
Quantity = Annotated[
    int | Annotated[str, Field(pattern=_QUANTITY)],
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": _QUANTITY,
        }
    ),
]


class Requirement(Part):
    """One condition on labels."""

    key: str
    """Key of the label."""
    operator: str
    """In, NotIn, Exists, DoesNotExist; of nodes also Gt and Lt."""
    values: Texts = ()
    """The values that In and NotIn compare with."""


class LabelSelector(Part):
    """Which objects are meant, by their labels."""

    match_labels: dict[str, str] = {}
    """Labels with their values, all of which must be so."""
    match_expressions: Annotated[tuple[Requirement, ...], Field(strict=False)] = ()
    """Conditions, all of which must hold."""


class NodeSelectorTerm(Part):
    """Which nodes are meant; all conditions must hold."""

    match_expressions: Annotated[tuple[Requirement, ...], Field(strict=False)] = ()
    """Conditions on the labels of the node."""
    match_fields: Annotated[tuple[Requirement, ...], Field(strict=False)] = ()
    """Conditions on the fields of the node."""


class NodeSelector(Part):
    """Which nodes are meant; one of the terms must hold."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(strict=False)]
    """The terms."""


class PreferredNodes(Part):
    """Nodes that are better than others."""

    weight: int = Field(ge=1, le=100)
    """How much better, 1 to 100."""
    preference: NodeSelectorTerm


class NodeAffinity(Part):
    """Which nodes the pods may run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNodes, ...], Field(strict=False)
    ] = ()
    """Nodes that are better than others."""


class PodAffinityTerm(Part):
    """Which other pods count, and where beside them."""

    topology_key: str
    """Label of nodes; nodes with the same value are one place."""
    label_selector: LabelSelector | None = None
    namespaces: Texts = ()
    """Namespaces of the other pods."""
    namespace_selector: LabelSelector | None = None
    match_label_keys: Texts = ()
    """Labels whose values must be those of the pod itself."""
    mismatch_label_keys: Texts = ()
    """Labels whose values must not be those of the pod itself."""


class PreferredPods(Part):
    """Other pods whose company is better than others'."""

    weight: int = Field(ge=1, le=100)
    """How much better, 1 to 100."""
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Part):
    """Beside which other pods these may run, or may not."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodAffinityTerm, ...], Field(strict=False)
    ] = ()
    """Terms, all of which must hold."""
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredPods, ...], Field(strict=False)] = ()
    """Terms that are better held."""


class Affinity(Part):
    """Where the pods may run."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Part):
    """A taint of nodes that the pods do not mind."""

    key: str = ""
    """Key of the taint; all, when it is not given."""
    operator: Literal["Exists", "Equal"] | None = None
    """Whether the value counts; Equal when it is not given."""
    value: str = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; all, when it is not given."""
    toleration_seconds: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    """How long it is not minded, with NoExecute."""


class Resources(Part):
    """CPU and memory of a container."""

    limits: dict[str, Quantity] = {}
    """What it gets at most."""
    requests: dict[str, Quantity] = {}
    """What it gets at least."""


class SecretName(Part):
    """A Secret of the pods' namespace."""

    name: str
    """Name of the Secret."""


class PodTemplate(Part):
    """How the pods of this channel's functions are made."""

    annotations: dict[str, str] = {}
    """Further annotations of the pods."""
    labels: dict[str, str] = {}
    """Further labels of the pods."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that they may run on."""
    resources: Resources | None = None
    affinity: Affinity | None = None
    tolerations: Annotated[tuple[Toleration, ...], Field(strict=False)] = ()
    """Taints that they do not mind."""
    priority_class_name: str = ""
    """Their priority class."""
    image_pull_secrets: Annotated[tuple[SecretName, ...], Field(strict=False)] = ()
    """Secrets for the registry of the image."""
