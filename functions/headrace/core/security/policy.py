"""What EventPolicies say of a channel: its status, and its part of the security document.

A policy that applies and can't be obeyed (Knative has not made it Ready, or it holds what nobody can read) lets nobody
in, and keeps the channel from being Ready. While no other policy applies, events are answered with 500: whoever may
send tries again, and the default mode, which may let everybody in, does not count. Pure. Called by
`headrace.core.channel.event_policies`; what a function makes of the part is `headrace.core.security.senders`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.core.conditions import Condition
from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted
from headrace.core.security import filters
from headrace.core.security.flags import DEFAULT_MODE, OIDC, DefaultMode, Flags

TYPE, FAILED = "EventPoliciesReady", "EventPoliciesGetFailed"
Part: TypeAlias = Mapping[str, Any]
"""A channel's part of the document: `{"policies": [{"name", "from", "filters"?}, …]}` or `{"unreadable": why}`."""

MOST_SUBJECTS, LONGEST_SUBJECT, MOST_COST, LONGEST = 10_000, 1024, 10_000, 64 * 1024
"""Of all policies of a channel together: subjects; comparisons that an event may cost; characters in the document."""
# A longer list of names would not help.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Applied:
    """What the policies make of a channel.

    Attributes:
        names: of the policies that count, in order; for `status.policies`.
        condition: None where Knative's flag is off and no policy applies.
        part: of the security document, which takes it where the flag is on; None: the default mode counts.
    """

    names: tuple[str, ...] = ()
    condition: Condition | None = None
    part: Part | None = None


def applied(found: Iterable[tuple[Mapping[str, Any], str]], flags: Flags, *, hidden: bool) -> Applied:
    """What the policies that apply to a channel make of it.

    Args:
        found: the policies by name, each with why nobody can say whether it applies, or nothing.
        hidden: the operator may not see policies.
    """
    found = [*found]
    judged = _judged(found, flags, hidden=hidden)
    if not flags.oidc:
        # The part is there before the flag is: the document takes it when the flag counts, and not a moment later.
        return Applied(condition=_not_enforced([_name(policy) for policy, _ in found]), part=judged.part)
    return judged


def _judged(found: list[tuple[Mapping[str, Any], str]], flags: Flags, *, hidden: bool) -> Applied:
    if hidden:
        words = "the operator may not see EventPolicies, which say who may send to this channel: see docs/rbac.md"
        return Applied(condition=Condition(TYPE, False, FAILED, words), part={"unreadable": words})
    if not found:
        words = f"no EventPolicy applies; {DEFAULT_MODE} is {flags.default_mode}: {_MODES[flags.default_mode]}"
        return Applied(condition=Condition(TYPE, True, "DefaultAuthorizationMode", words))
    room, counting = _Room(), []
    unready, damaged = [], []
    for policy, fault in found:
        name = _name(policy)
        if fault:
            damaged.append(f"EventPolicy {quoted(name)} may be for this channel: {fault}")
        elif not _is_ready(policy):
            unready.append(name)
        else:
            try:
                counting.append(room.taken(_compiled(name, policy)))
            except InvalidSpec as error:
                damaged.append(f"EventPolicy {quoted(name)} lets nobody in: {error}")
    condition = _condition(unready, damaged)
    part = {"policies": counting} if counting else {"unreadable": condition.message}
    return Applied(tuple(str(one["name"]) for one in counting), condition, part)


def _condition(unready: list[str], damaged: list[str]) -> Condition:
    words = damaged[:_MOST_NAMED]
    words += [f"and {len(damaged) - _MOST_NAMED} more"] if len(damaged) > _MOST_NAMED else []
    words += [f"{_named(unready)} not Ready, and lets nobody in: look at its conditions"] if unready else []
    reason = FAILED if damaged else "EventPoliciesNotReady" if unready else ""
    return Condition(TYPE, not words, reason, "; ".join(words))


def _not_enforced(names: list[str]) -> Condition | None:
    """Without tokens nobody knows who sends; where policies apply all the same, nobody shall rely on them."""
    if not names:
        return None
    words = f"{_named(names)} not enforced, and whoever reaches the channel's address may send to it: policies need"
    words += f" {OIDC}: enabled in Knative's config-features"
    return Condition(TYPE, False, "OIDCDisabled", words, informative=True)


def _compiled(name: str, policy: Mapping[str, Any]) -> dict[str, Any]:
    """Raises:
    InvalidSpec: it can't be obeyed.
    """
    status, spec = _object(policy.get("status")), _object(policy.get("spec"))
    subjects = status.get("from") or []
    if not isinstance(subjects, list) or not all(isinstance(one, str) for one in subjects):
        raise InvalidSpec(f"status.from is {quoted(subjects)}, no list of texts", field="status.from")
    if any(len(one) > LONGEST_SUBJECT for one in subjects):
        raise InvalidSpec(f"status.from has a subject of over {LONGEST_SUBJECT} characters", field="status.from")
    tree = filters.parsed(spec.get("filters"), "spec.filters")
    return {"name": name, "from": subjects, **({} if tree is None else {"filters": tree})}


class _Room:
    """What policies of a channel may take together; the first ones by name are served first."""

    def __init__(self) -> None:
        self._subjects, self._cost, self._characters = 0, 0, 0

    def taken(self, compiled: dict[str, Any]) -> dict[str, Any]:
        """Raises:
        InvalidSpec: there is no room for this policy.
        """
        tree = compiled.get("filters")
        subjects = self._subjects + len(compiled["from"])
        cost = self._cost + (0 if tree is None else filters.cost(tree))
        characters = self._characters + len(str(compiled))
        for what, sum_, most in (
            ("subjects", subjects, MOST_SUBJECTS),
            ("comparisons and operations in filters", cost, MOST_COST),
            ("characters", characters, LONGEST),
        ):
            if sum_ > most:
                words = f"with it the policies of this channel have {sum_} {what}, at most {most} are read"
                raise InvalidSpec(f"{words}: make them fewer or shorter", field="spec")
        self._subjects, self._cost, self._characters = subjects, cost, characters
        return compiled


def _is_ready(policy: Mapping[str, Any]) -> bool:
    conditions = _object(policy.get("status")).get("conditions")
    return any(
        _object(one).get("type") == "Ready" and _object(one).get("status") == "True"
        for one in (conditions if isinstance(conditions, list) else ())
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(map(quoted, names[:_MOST_NAMED]))
    return f"EventPolicy {listed} is" if len(names) == 1 else f"EventPolicies {listed}{more} are"


def _name(policy: Mapping[str, Any]) -> str:
    return str(policy["metadata"].get("name"))


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_MODES = {
    DefaultMode.ALLOW_ALL: "whoever has a valid token may send",
    DefaultMode.DENY_ALL: "nobody may send",
    DefaultMode.ALLOW_SAME_NAMESPACE: "service accounts of the channel's namespace may send",
}
