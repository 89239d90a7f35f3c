"""Kinds of objects, the paths of the objects, and which kinds the cluster serves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from headrace.core.manifest.own_address import API_VERSION, KIND
from headrace.io.process import clock
from headrace_operator.kube.api import KubeApi

Key = tuple[str, str]
"""Namespace and name of an object; the namespace is empty where the kind has none."""
# A kind that is not served may be installed a little later.
LOOK_AGAIN_SECONDS = 30.0
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of objects, as `Kind("apps/v1", "Deployment", "deployments")`."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def title(self) -> str:
        """The name that the hook uses: `Deployment.apps/v1`."""
        return f"{self.kind}.{self.api_version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of all objects, of those of a namespace, or of one."""
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)


CHANNEL = Kind(API_VERSION, KIND, "natsjetstreamchannels")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
EVENT = Kind("events.k8s.io/v1", "Event", "events")


def key(body: Mapping[str, Any]) -> Key:
    """Namespace and name of an object."""
    metadata = body["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def is_name(text: str) -> bool:
    """May an object have this name? A text with other characters in a path would ask for something else."""
    return _NAME.fullmatch(text) is not None


class Discovery:
    """The kinds that the cluster serves; for a kind that it lacks, it is asked at most every half a minute."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._served: frozenset[str] = frozenset()
        self._resources: dict[str, tuple[float, tuple[Kind, ...]]] = {}

    async def refresh(self) -> bool:
        """Ask which group versions there are; True when they have changed.

        Raises:
            Unavailable, Refused: the API server did not say.
        """
        groups = (await self._api.get("/apis") or {}).get("groups") or ()
        served = frozenset(version["groupVersion"] for group in groups for version in group["versions"])
        changed, self._served = served != self._served, served
        if changed:
            self._resources.clear()
        return changed

    def serves(self, api_version: str) -> bool:
        return api_version in self._served or "/" not in api_version

    async def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None when the cluster does not serve it. Raises as `refresh`."""
        return await self._first(api_version, lambda one: one.kind == kind)

    async def by_plural(self, api_version: str, plural: str) -> Kind | None:
        """The kind, or None when the cluster does not serve it. Raises as `refresh`."""
        return await self._first(api_version, lambda one: one.plural == plural)

    async def _first(self, api_version: str, fits: Callable[[Kind], bool]) -> Kind | None:
        if not self.serves(api_version):
            return None
        asked, known = self._resources.get(api_version, (-inf, ()))
        found = next(filter(fits, known), None)
        # A group may get another kind without a new version.
        if found is not None or clock.monotonic() < asked + LOOK_AGAIN_SECONDS:
            return found
        return next(filter(fits, await self._listed(api_version)), None)

    async def _listed(self, api_version: str) -> tuple[Kind, ...]:
        root = "/apis" if "/" in api_version else "/api"
        listed = (await self._api.get(f"{root}/{api_version}") or {}).get("resources") or ()
        found = tuple(
            Kind(api_version, one["kind"], one["name"], bool(one["namespaced"]))
            for one in listed
            if "/" not in one["name"]
        )
        self._resources[api_version] = (clock.monotonic(), found)
        return found
