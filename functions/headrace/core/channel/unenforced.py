"""The demands of Knative's security that Headrace does not enforce yet, told so that nobody relies on them in silence.

Knows the flags of `config-features`, the EventPolicies that apply to the channel, and the traces of both in an entry of
`spec.subscribers`. Pure; called by `headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace.core.channel import related
from headrace.core.conditions import Condition
from headrace.core.manifest.own_address import GROUP, KIND
from headrace.core.quoting import quoted

TYPE = "SecurityEnforced"
NOT_SEEN = "SecurityNotSeen"
POLICIES = f"{related.EVENT_POLICY}.{related.EVENT_POLICY_API}"
SEEN_BY = {
    f"ConfigMap.v1/{related.EVENTING}/{related.FEATURES}": f"ConfigMap {related.EVENTING}/{related.FEATURES}",
    POLICIES: "EventPolicies",
}
"""The objects to look at: the hook's name for each, and the one for people."""
# A longer list of names would not help.
MOST_NAMED = 5
_ANYBODY = "whoever reaches its address may send to it; keep others out by a NetworkPolicy"


def condition(
    parent: Mapping[str, Any], observed: Mapping[str, Any], unseen: Collection[str] = ()
) -> tuple[Condition, ...]:
    """A condition of severity Info; none where everything asked for is done.

    Args:
        observed: `related` of the hook's request.
        unseen: of the hook's request.
    """
    found = list(_found(parent, observed))
    if found:
        return (Condition(TYPE, False, found[0][0], "; ".join(words for _, words in found), informative=True),)
    # A cluster that serves no policies has no Knative Eventing that could ask for anything.
    hidden = POLICIES in observed and [
        called for name, called in SEEN_BY.items() if any(each.startswith(name) for each in unseen)
    ]
    if hidden:
        told = (
            f"the operator may not see {' and '.join(hidden)}, which may ask for what is not enforced: see docs/rbac.md"
        )
        return (Condition(TYPE, False, NOT_SEEN, told, informative=True, unknown=True),)
    return ()


def _found(parent: Mapping[str, Any], observed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    policies = sorted(str(one["metadata"].get("name")) for one in _policies(parent, observed))
    if policies:
        more = f" and {len(policies) - MOST_NAMED} more" if len(policies) > MOST_NAMED else ""
        told = f"EventPolicy {', '.join(map(quoted, policies[:MOST_NAMED]))}{more} says who may send to this channel"
        yield "EventPoliciesNotEnforced", f"{told}, and Headrace does not enforce that yet: {_ANYBODY}"
    features = related.config_map(observed, related.EVENTING, related.FEATURES) or {}
    if _is(features, "transport-encryption", "strict"):
        told = f"{related.FEATURES} has transport-encryption: strict, and Headrace does not serve it yet"
        yield "EncryptionNotEnforced", f"{told}: the channel's address is http, and events go there in the clear"
    if _is(features, "authentication-oidc", "enabled") or _authenticated(parent):
        told = f"{related.FEATURES} has authentication-oidc: enabled, and Headrace checks no tokens yet"
        yield "SendersNotAuthenticated", f"{told}: {_ANYBODY}"


def _is(features: Mapping[str, Any], flag: str, value: str) -> bool:
    # Knative reads flags so.
    return str(features.get(flag, "")).strip().lower() == value


def _authenticated(parent: Mapping[str, Any]) -> bool:
    """Knative writes an identity into the entries where the flag is on; a stock Metacontroller shows no flags."""
    entries = _list(_object(parent.get("spec")).get("subscribers"))
    return any(_object(one).get("auth") for one in entries)


def _policies(parent: Mapping[str, Any], observed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    metadata = parent["metadata"]
    for policy in related.objects(observed, related.EVENT_POLICY_API, related.EVENT_POLICY):
        own = policy["metadata"].get("namespace", metadata["namespace"]) == metadata["namespace"]
        if own and not policy["metadata"].get("deletionTimestamp") and _applies(policy.get("spec"), metadata):
            yield policy


def _applies(spec: Any, channel: Mapping[str, Any]) -> bool:
    """A policy without `to` is for all of its namespace; group, kind and name match in upper or lower case."""
    targets = _list(_object(spec).get("to"))
    return not targets or any(_meant(_object(one), channel) for one in targets)


def _meant(target: Mapping[str, Any], channel: Mapping[str, Any]) -> bool:
    ref, selector = target.get("ref"), target.get("selector")
    if isinstance(ref, Mapping):
        return _is_kind(ref) and str(ref.get("name", "")).lower() == str(channel["name"]).lower()
    return isinstance(selector, Mapping) and _is_kind(selector) and _selected(selector, _object(channel.get("labels")))


def _is_kind(ref: Mapping[str, Any]) -> bool:
    group = str(ref.get("apiVersion", "")).partition("/")[0]
    return (group.lower(), str(ref.get("kind", "")).lower()) == (GROUP, KIND.lower())


def _selected(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    equal = all(labels.get(name) == value for name, value in _object(selector.get("matchLabels")).items())
    return equal and all(_holds(_object(one), labels) for one in _list(selector.get("matchExpressions")))


def _holds(term: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    label, values = str(term.get("key")), _list(term.get("values"))
    match term.get("operator"):
        case "In":
            return label in labels and labels[label] in values
        case "NotIn":
            return labels.get(label) not in values
        case "Exists":
            return label in labels
        case "DoesNotExist":
            return label not in labels
    # A later version of Kubernetes may know more operators: better one report too many than none.
    return True


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
