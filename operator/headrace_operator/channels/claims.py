"""Which children are which channel's, and which channels want which shared ones.

Shared children outside their channels' namespaces can't be owned: only passes over the channels tell which of them
want one, and an operator that begins to lead has made none. So it can say that no channel wants a child only once it
has seen every channel. This module knows objects and asks nobody; it is called by
`headrace_operator.channels.children`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.core.channel.child_marks import CHANNEL_ANNOTATION, SCOPE_LABEL, SHARED_LABEL, TENANT_LABEL, UID_LABEL
from headrace.core.channel.hook import SERVING_API
from headrace_operator.channels import child as children_of
from headrace_operator.channels.child import Spot
from headrace_operator.kube.api import Body
from headrace_operator.kube.kinds import DEPLOYMENT


@dataclass(slots=True)
class Indexed:
    """The children of each channel by its uid, and the shared children; the watches keep all of this up to date.

    Attributes:
        guests: the functions in other namespaces than their channels', by the namespace of these.
    """

    spots: dict[str, set[Spot]] = field(default_factory=dict)
    shared: set[Spot] = field(default_factory=set)
    guests: dict[str, set[Spot]] = field(default_factory=dict)

    def move(self, spot: Spot, old: Body | None, new: Body | None) -> None:
        for uid in belonging(old) - belonging(new):
            self.spots.get(uid, set()).discard(spot)
        for uid in belonging(new):
            self.spots.setdefault(uid, set()).add(spot)
        if is_shared(new):
            self.shared.add(spot)
        else:
            self.shared.discard(spot)
        before, now = host_of(spot, old), host_of(spot, new)
        if before and before != now:
            self.guests.get(before, set()).discard(spot)
            if not self.guests.get(before):
                self.guests.pop(before, None)
        if now:
            self.guests.setdefault(now, set()).add(spot)


class Wants:
    """The shared children that each channel wants, as of the last pass over it."""

    def __init__(self) -> None:
        self._wanted: dict[str, set[Spot]] = {}
        self._wanting: dict[Spot, set[str]] = {}
        self._seen: set[str] = set()

    def clear(self) -> None:
        """Forget all wants: another operator may have led meanwhile."""
        self._wanted.clear()
        self._wanting.clear()
        self._seen.clear()

    def by(self, spot: Spot) -> frozenset[str]:
        """The uids of the channels that want a child."""
        return frozenset(self._wanting.get(spot, ()))

    def of(self, uid: str) -> frozenset[Spot]:
        """The shared children that a channel wants."""
        return frozenset(self._wanted.get(uid, ()))

    def add(self, uid: str, spots: Iterable[Spot]) -> None:
        """A pass has begun: the channel wants these children beside those of before."""
        for spot in spots:
            self._wanted.setdefault(uid, set()).add(spot)
            self._wanting.setdefault(spot, set()).add(uid)

    def set(self, uid: str, spots: Iterable[Spot]) -> None:
        """A pass has come to its end: the channel wants these children and no others."""
        wanted = set(spots)
        self._drop(uid, self._wanted.get(uid, set()) - wanted)
        self.add(uid, wanted)
        self._seen.add(uid)

    def forget(self, uid: str) -> None:
        self._drop(uid, set(self._wanted.get(uid, ())))
        self._seen.discard(uid)

    def knows(self, uids: Iterable[str]) -> bool:
        """Are the wants of all these channels known?"""
        return self._seen.issuperset(uids)

    def _drop(self, uid: str, spots: Iterable[Spot]) -> None:
        for spot in spots:
            self._wanted[uid].discard(spot)
            self._wanting[spot].discard(uid)
            if not self._wanting[spot]:
                del self._wanting[spot]
        if not self._wanted.get(uid, True):
            del self._wanted[uid]


def belonging(body: Body | None) -> set[str]:
    """The channels that an object belongs to."""
    if body is None:
        return set()
    own = (body["metadata"].get("labels") or {}).get(UID_LABEL)
    return {*children_of.owners(body), *([own] if own else [])}


def host_of(spot: Spot, body: Body | None) -> str:
    """The namespace whose channel has this function in another one; empty for all other objects."""
    kind, (place, _) = spot
    if body is None or is_shared(body) or not (kind == DEPLOYMENT or kind.api_version == SERVING_API):
        return ""
    channel = (body["metadata"].get("annotations") or {}).get(CHANNEL_ANNOTATION, "")
    namespace = str(channel).partition("/")[0]
    return namespace if namespace != place else ""


def is_shared(body: Body | None) -> bool:
    return body is not None and (body["metadata"].get("labels") or {}).get(SHARED_LABEL) == "true"


def is_of_one_namespace(body: Body) -> bool:
    """Is it for channels of its own namespace only? Such a channel owns each shared child that it wants."""
    return (body["metadata"].get("labels") or {}).get(SCOPE_LABEL) == "namespace"


def may_share(body: Body, namespace: str) -> bool:
    """Is a shared child one that channels of this namespace may have a share in?"""
    if is_of_one_namespace(body):
        return bool(body["metadata"].get("namespace") == namespace)
    return (body["metadata"].get("labels") or {}).get(TENANT_LABEL) in (None, namespace)
