"""The demands of Knative's security that Headrace does not enforce yet, told so that nobody relies on them in silence.

Knows the flags of `config-features`, and their traces in an entry of `spec.subscribers`. Pure; called by
`headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace.core.channel import related
from headrace.core.conditions import Condition

TYPE = "SecurityEnforced"
NOT_SEEN = "SecurityNotSeen"
POLICIES = f"{related.EVENT_POLICY}.{related.EVENT_POLICY_API}"
SEEN_BY = {
    f"ConfigMap.v1/{related.EVENTING}/{related.FEATURES}": f"ConfigMap {related.EVENTING}/{related.FEATURES}",
    POLICIES: "EventPolicies",
}
"""The objects to look at: the hook's name for each, and the one for people."""
_ANYBODY = "whoever reaches its address may send to it; keep others out by a NetworkPolicy"


def condition(
    parent: Mapping[str, Any], observed: Mapping[str, Any], unseen: Collection[str] = (), *, made: bool = True
) -> tuple[Condition, ...]:
    """A condition of severity Info; none where everything asked for is done.

    Args:
        observed: `related` of the hook's request.
        unseen: of the hook's request.
        made: the functions are ours to make: others have no security document.
    """
    found = list(_found(parent, observed, unseen, made))
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


def _found(
    parent: Mapping[str, Any], observed: Mapping[str, Any], unseen: Collection[str], made: bool
) -> Iterator[tuple[str, str]]:
    flags = related.flags(observed, unseen)
    if flags is None and _authenticated(parent):
        told = f"Knative's flag authentication-oidc is on, and nobody here can see {related.FEATURES}"
        yield "SendersNotAuthenticated", f"{told}, so that no tokens may be asked for: {_ANYBODY}"
    elif flags is not None and flags.oidc and not made:
        told = "Knative's flag authentication-oidc is on, and the channel's functions are not ours to make"
        yield "SendersNotAuthenticated", f"{told}, so that they ask for no tokens (HEADRACE_IMAGE is unset): {_ANYBODY}"


def _authenticated(parent: Mapping[str, Any]) -> bool:
    """Knative writes an identity into the entries where the flag is on; a stock Metacontroller shows no flags."""
    entries = _list(_object(parent.get("spec")).get("subscribers"))
    return any(_object(one).get("auth") for one in entries)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
