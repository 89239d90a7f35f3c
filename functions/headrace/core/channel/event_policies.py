"""Which EventPolicies apply to a channel, as Knative's own controllers find them.

A policy applies to objects of its own namespace: to all of them without `to`, else to those that a `ref` names or a
`selector` picks. Knows manifests of strangers, and leaves none of them out because it is damaged: that would open the
channel. What the policies say is `headrace.core.security.policy`'s. Pure. Called by `headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace.core.channel import related
from headrace.core.errors import InvalidSpec
from headrace.core.manifest.own_address import GROUP, KIND
from headrace.core.quoting import quoted
from headrace.core.security import policy
from headrace.core.security.flags import Flags
from headrace.core.security.policy import Applied

POLICIES = f"{related.EVENT_POLICY}.{related.EVENT_POLICY_API}"
"""Its kind, as the hook names it."""


def applied(
    parent: Mapping[str, Any], observed: Mapping[str, Any], flags: Flags, unseen: Collection[str] = ()
) -> Applied:
    """What the policies that apply to the channel make of it.

    Args:
        observed, unseen: `related` and `unseen` of the hook's request.
    """
    hidden = any(each.startswith(POLICIES) for each in unseen)
    return policy.applied(_policies(parent, observed), flags, hidden=hidden)


def _policies(parent: Mapping[str, Any], observed: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The policies that apply to the channel, by name, each with why nobody can say whether it does, or nothing."""
    channel = parent["metadata"]
    found = related.objects(observed, related.EVENT_POLICY_API, related.EVENT_POLICY)
    for one in sorted(found, key=lambda one: str(one["metadata"].get("name"))):
        metadata = one["metadata"]
        if metadata.get("namespace", channel["namespace"]) != channel["namespace"] or metadata.get("deletionTimestamp"):
            continue
        try:
            if _applies(_object(one.get("spec")).get("to"), channel):
                yield one, ""
        except InvalidSpec as error:
            yield one, str(error)


def _applies(targets: Any, channel: Mapping[str, Any]) -> bool:
    if targets is None or targets == []:
        return True
    if not isinstance(targets, list):
        raise InvalidSpec(f"spec.to is {quoted(targets)}, no list", field="spec.to")
    # Each is looked at, so that a policy is not told to be well because it names this channel first.
    meant = [_meant(one, f"spec.to[{index}]", channel) for index, one in enumerate(targets)]
    return any(meant)


def _meant(target: Any, field: str, channel: Mapping[str, Any]) -> bool:
    ref, selector = (_object(target).get(name) for name in ("ref", "selector"))
    if isinstance(ref, Mapping):
        # Knative compares all three in upper or lower case.
        return _is_kind(ref, f"{field}.ref") and str(ref.get("name", "")).lower() == str(channel["name"]).lower()
    if isinstance(selector, Mapping):
        place = f"{field}.selector"
        return _is_kind(selector, place) and _selected(selector, place, _object(channel.get("labels")))
    raise InvalidSpec(f"{field} has neither ref nor selector", field=field)


def _is_kind(ref: Mapping[str, Any], field: str) -> bool:
    group, slash, version = str(ref.get("apiVersion", "")).partition("/")
    if "/" in version:
        raise InvalidSpec(f"{field}.apiVersion is {quoted(ref['apiVersion'])}, no GROUP/VERSION", field=field)
    return ((group if slash else "").lower(), str(ref.get("kind", "")).lower()) == (GROUP, KIND.lower())


def _selected(selector: Mapping[str, Any], field: str, labels: Mapping[str, Any]) -> bool:
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        # To Kubernetes a selector that says nothing picks nothing; one with an empty list picks everything.
        return False
    equal = all(labels.get(name) == value for name, value in _object(selector.get("matchLabels")).items())
    terms = selector.get("matchExpressions")
    holding = [_holds(_object(one), f"{field}.matchExpressions", labels) for one in _list(terms)]
    return equal and all(holding)


def _holds(term: Mapping[str, Any], field: str, labels: Mapping[str, Any]) -> bool:
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
    # A later version of Kubernetes may know more operators.
    raise InvalidSpec(f"{field} has the operator {quoted(term.get('operator'))}, which nobody here knows", field=field)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
