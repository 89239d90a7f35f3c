"""An evaluator of NetworkPolicies, by the rules of Kubernetes' API, for tables of tests.

It knows the fields that our policies use, and refuses all others, so that none is passed over in silence. Pods are
labels in a namespace, namespaces are labels by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str]
Policy = Mapping[str, Any]


@dataclass(frozen=True)
class Pod:
    """One end of a connection."""

    namespace: str
    labels: Labels = field(default_factory=dict)


def of(body: Mapping[str, Any]) -> Pod:
    """The pods of a Deployment or a Knative Service, whose labels are those of its template."""
    return Pod(body["metadata"]["namespace"], body["spec"]["template"]["metadata"]["labels"])


@dataclass(frozen=True)
class Network:
    """Policies, and the labels of namespaces; each has its name as a label, as the API server gives it."""

    policies: Sequence[Policy]
    namespaces: Mapping[str, Labels] = field(default_factory=dict)

    def selecting(self, target: Pod) -> list[Policy]:
        """The policies that hold for a pod."""
        return [
            one
            for one in self.policies
            if one["metadata"]["namespace"] == target.namespace and _selects(one["spec"]["podSelector"], target.labels)
        ]

    def allows(self, source: Pod, target: Pod, port: int) -> bool:
        """May `source` connect to this TCP port? A pod that no policy selects takes everybody."""
        selecting = self.selecting(target)
        rules = [rule for one in selecting for rule in _known(one["spec"], _SPEC).get("ingress", ())]
        return not selecting or any(self._matches(rule, source, target.namespace, port) for rule in rules)

    def _matches(self, rule: Mapping[str, Any], source: Pod, namespace: str, port: int) -> bool:
        ports, peers = _known(rule, {"from", "ports"}).get("ports"), rule.get("from")
        listed = [_known(one, {"port", "protocol"}) for one in ports or ()]
        if ports and not any((one["port"], one.get("protocol", "TCP")) == (port, "TCP") for one in listed):
            return False
        return not peers or any(self._is(peer, source, namespace) for peer in peers)

    def _is(self, peer: Mapping[str, Any], source: Pod, namespace: str) -> bool:
        _known(peer, {"namespaceSelector", "podSelector"})
        if "namespaceSelector" in peer:
            labels = {**self.namespaces.get(source.namespace, {}), "kubernetes.io/metadata.name": source.namespace}
            if not _selects(peer["namespaceSelector"], labels):
                return False
        elif source.namespace != namespace:
            return False
        return _selects(peer.get("podSelector", {}), source.labels)


_SPEC = {"podSelector", "policyTypes", "ingress"}


def _selects(selector: Mapping[str, Any], labels: Labels) -> bool:
    _known(selector, {"matchLabels", "matchExpressions"})
    expressions = selector.get("matchExpressions", ())
    assert all(one["operator"] == "In" for one in expressions), expressions
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


def _known(node: Mapping[str, Any], members: set[str]) -> Mapping[str, Any]:
    assert node.keys() <= members, f"the evaluator does not know {node.keys() - members}"
    return node
