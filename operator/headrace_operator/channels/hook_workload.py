"""Notices that `reconcile` was replaced: with another image or other settings channels may want other children.

`reconcile` sleeps where it can, and says nothing by itself. So its workload is watched, the Deployment or the Knative
Service whose name is the host of HOOK_URL, and all channels are looked at once the new version is up.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from headrace.core.channel.hook import SERVING_API
from headrace.io.process import log
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.kinds import DEPLOYMENT, Discovery, Key, Kind, key
from headrace_operator.kube.watch import Watch

KINDS = (DEPLOYMENT, Kind(SERVING_API, "Service", "services"))
# Requests reach the old pods for a moment longer, until every node knows that they go.
LATE_SECONDS = 5.0

_log = log.get("operator")


def place(url: str, named: str | None = None) -> Key | None:
    """Namespace and name of the workload of the `reconcile` at a URL; None where the host is no Service's.

    Args:
        named: the two as `<namespace>/<name>`, where a deployer gives them.
    """
    if named:
        namespace, _, name = named.partition("/")
        return namespace, name
    name, namespace, *rest = [*(urlsplit(url).hostname or "").split("."), "", ""]
    return (namespace, name) if rest[:1] == ["svc"] else None


class HookWorkload:
    """Watches one Deployment or Knative Service, whichever exists."""

    def __init__(
        self,
        api: KubeApi,
        discovery: Discovery,
        where: Key | None,
        tell: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Args:
        where: namespace and name; None: nothing is watched.
        tell: called when the workload has been replaced, and once more when no request can reach an old pod.
        """
        self._api = api
        self._discovery = discovery
        self._where = where
        self._tell = tell
        self._spawn = spawn
        self._watches: dict[Kind, Watch] = {}
        self._running: dict[Kind, str] = {}

    def watch_what_is_served(self) -> None:
        """Begin to watch the kinds that the cluster serves."""
        if self._where is None:
            return
        namespace, name = self._where
        for kind in KINDS:
            if kind not in self._watches and self._discovery.serves(kind.api_version):
                fields = f"metadata.name={name}"
                watch = Watch(self._api, kind, namespace=namespace, fields=fields, quiet=True)
                watch.cache.listeners.append(partial(self._on_change, watch))
                self._watches[kind] = watch
                self._spawn(watch.run())

    def _on_change(self, watch: Watch, _old: Body | None, new: Body | None) -> None:
        kind = watch.cache.kind
        found = "" if new is None else up(new)
        if new is None or not found or found == self._running.get(kind):
            return
        # The first passes ask the version that is up when the workload is first seen, so that version is no news.
        first, self._running[kind] = kind not in self._running and not watch.cache.listed, found
        if not first:
            _log.info("reconcile was replaced, every channel is looked at", workload=f"{kind.title} {key(new)[1]}")
            self._tell()
            asyncio.get_running_loop().call_later(LATE_SECONDS, self._tell)


def up(body: Mapping[str, Any]) -> str:
    """A name for the version of a workload that is up; empty while it changes from one to another."""
    status = body.get("status") or {}
    if body["kind"] == "Service":
        return str(status.get("latestReadyRevisionName") or "")
    replicas = int(status.get("replicas") or 0)
    seen = int(status.get("observedGeneration") or 0) >= int(body["metadata"].get("generation") or 0)
    there = 0 < replicas == int(status.get("updatedReplicas") or 0) == int(status.get("availableReplicas") or 0)
    if not (seen and there):
        return ""
    return hashlib.sha256(json.dumps(body["spec"].get("template"), sort_keys=True).encode()).hexdigest()
