"""A channel's `spec.subscribers`, version by version, and how often it lied."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tests.support.kube.kube_api import Api


@dataclass
class ListRecord:
    """All versions, each as the generation of the entry by uid; `run` it beside what writes them."""

    versions: list[dict[str, int]] = field(default_factory=list)

    async def run(self, api: Api, collection: str, name: str) -> None:
        """Note every version until cancelled."""
        async for channel in api.changes(collection, name):
            entries = (channel.get("spec") or {}).get("subscribers") or ()
            version = {one["uid"]: one["generation"] for one in entries}
            if not self.versions or version != self.versions[-1]:
                self.versions.append(version)

    def vanished(self, living: Collection[str]) -> int:
        """How often an entry of these was taken out."""
        return sum(len((old.keys() - new.keys()) & set(living)) for old, new in self._steps())

    def fallen_back(self) -> int:
        """How often an entry went back to a former generation."""
        return sum(new[uid] < old[uid] for old, new in self._steps() for uid in old.keys() & new.keys())

    def leftovers(self, living: Collection[str]) -> int:
        """How many entries of nobody who lives at the end were in one of the last lists, until they were pruned."""
        return max((len(version.keys() - set(living)) for version in self.versions[-10:]), default=0)

    def _steps(self) -> list[tuple[dict[str, int], dict[str, int]]]:
        return list(zip(self.versions, self.versions[1:], strict=False))
