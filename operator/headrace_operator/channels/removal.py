"""Takes a child away: deletes it, or leaves a shared one to the other channels that own it.

`headrace_operator.channels.children` knows the owners that are left, and calls this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import Refused
from headrace.io.process import log
from headrace_operator.channels.child import Spot, title
from headrace_operator.channels.child_records import ChildProblem, ChildRecords
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.kinds import Kind
from headrace_operator.kube.watch import Cache

_log = log.get("children")


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of children; each method gives the problems."""

    api: KubeApi
    applied: ChildRecords
    cache: Callable[[Kind], Cache]

    async def disown(self, spot: Spot, live: Body, uid: str) -> list[ChildProblem]:
        """Take one channel out of the child's owners."""
        kind, place = spot
        references = live["metadata"].get("ownerReferences") or []
        kept = [one for one in references if one["uid"] != uid]
        taken_out = {"op": "replace", "path": "/metadata/ownerReferences", "value": kept}
        try:
            patched = await self.api.swap(kind.path(*place), live, taken_out)
        except Refused as error:
            return [] if error.status == 404 else [ChildProblem.of(spot, error)]
        self.cache(kind).note(patched)
        return []

    async def delete(self, spot: Spot, live: Body) -> list[ChildProblem]:
        """Delete this very object."""
        kind, place = spot
        self.applied.forget(spot)
        if live["metadata"].get("deletionTimestamp"):
            return []
        try:
            await self.api.delete(kind.path(*place), live["metadata"]["uid"])
        except Refused as error:
            return [ChildProblem.of(spot, error)]
        _log.info("child deleted", child=title(spot))
        return []
