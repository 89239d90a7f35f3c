"""The answer to the hook's verb `customize`: which objects the hook is to see, and what a channel is given.

Written by `reconcile`, read by the operator; a stock Metacontroller reads the rules and passes over the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.core.channel.hook import EXTENSION

PARENT_ANNOTATIONS = {"messaging.knative.dev/subscribable": "v1"}
"""The annotations that each channel should bear: they tell subscribers the form. Source: Knative's Channel Spec."""


@dataclass(frozen=True, slots=True)
class RelatedRule:
    """Which objects beside the channel are to be observed: one of `relatedResources`; an empty field means any.

    Attributes:
        resource: the plural, or a guess at it where the kind is given, too.
        kind, concerning, optional: of the extension, which a stock Metacontroller does not read.
        concerning: only objects that name the channel as their `spec.channel`, or whose uid the channel mentions.
        optional: a channel does not wait for the right to see them.
    """

    api_version: str
    resource: str
    kind: str = ""
    namespace: str = ""
    names: tuple[str, ...] = ()
    concerning: bool = False
    optional: bool = False

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"apiVersion": self.api_version, "resource": self.resource}
        body |= {"namespace": self.namespace} if self.namespace else {}
        body |= {"names": list(self.names)} if self.names else {}
        extension = {"kind": self.kind, "concerning": "parent" if self.concerning else "", "optional": self.optional}
        said = {name: value for name, value in extension.items() if value}
        return {**body, EXTENSION: said} if said else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        extension = body.get(EXTENSION) or {}
        return cls(
            str(body["apiVersion"]),
            str(body["resource"]),
            str(extension.get("kind") or ""),
            str(body.get("namespace") or ""),
            tuple(map(str, body.get("names") or ())),
            extension.get("concerning") == "parent",
            extension.get("optional") is True,
        )


@dataclass(frozen=True, slots=True)
class CustomizeAnswer:
    """The answer to `customize`: the objects to observe, and the annotations that the channel is to have.

    Attributes:
        system_namespace: where a channel may have children beside its own namespace; empty for one that does not say.

    A stock Metacontroller writes only the status of a parent, so it is given no annotations.
    """

    rules: tuple[RelatedRule, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    system_namespace: str = ""

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"relatedResources": [rule.to_json() for rule in self.rules]}
        extension = {"annotations": dict(self.annotations), "systemNamespace": self.system_namespace}
        said = {name: value for name, value in extension.items() if value}
        return {**body, EXTENSION: said} if said else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read it.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: it is not of this form.
        """
        extension = body.get(EXTENSION) or {}
        annotations = {str(name): str(value) for name, value in (extension.get("annotations") or {}).items()}
        rules = tuple(map(RelatedRule.from_json, body.get("relatedResources") or ()))
        return cls(rules, annotations, str(extension.get("systemNamespace") or ""))
