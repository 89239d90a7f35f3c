"""A request arrives at a `receive` that sleeps: this is known before it has a pod, a second before it stores the event.

Knative's activator holds the request and has the autoscaler order a pod, so the Deployment that Knative keeps for
`receive` goes from zero replicas to some. Nothing else does that: a new revision's Deployment is *made* with the pods
that it begins with, and changes of a revision leave the number alone (read in Knative Serving 0.50). The Deployment is
Knative's and not one of our children (ADR 031): we look at it and never write it. Called by
`headrace_operator.program`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.core.channel.child_marks import COMPONENT_LABEL, MANAGED_BY, US
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.kinds import DEPLOYMENT
from headrace_operator.kube.watch import Watch

# Knative puts this label on all that it makes for a Knative Service.
SERVICE = "serving.knative.dev/service"
RECEIVES = f"{MANAGED_BY}={US},{COMPONENT_LABEL}=receive,{SERVICE}"

CATCHES_UP_SECONDS = 0.5


class Arrivals:
    """Watches the Deployments of every `receive`."""

    def __init__(self, api: KubeApi, tell: Callable[[str], None], namespace: str = "") -> None:
        """Args:
        tell: called with the Knative Service, as namespace/name, at which a request has arrived.
        namespace: empty for all.
        """
        self._watch = Watch(api, DEPLOYMENT, namespace=namespace, labels=RECEIVES, quiet=True)
        self._watch.cache.listeners.append(self._on_change)
        self._tell = tell

    async def run(self) -> None:
        """Never returns."""
        await self._watch.run()

    def _on_change(self, old: Body | None, new: Body | None) -> None:
        cache = self._watch.cache
        # The changes in a list, and those that a watch begins with, are old; only later ones happen now.
        is_news = cache.complete and asyncio.get_running_loop().time() >= cache.up_since + CATCHES_UP_SECONDS
        if is_news and new is not None and woken(old, new):
            self._tell(f"{new['metadata']['namespace']}/{new['metadata']['labels'][SERVICE]}")


def woken(old: Body | None, new: Body | None) -> bool:
    """Had this Deployment no pod, and is it to have some now?"""
    if old is None or new is None or old["metadata"]["uid"] != new["metadata"]["uid"]:
        return False
    return old["spec"].get("replicas") == 0 and bool(new["spec"].get("replicas"))
