"""Knative Serving's and the Deployment controller's words about functions whose pods are ready; no pod is run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.support.kube.kube_api import Api

FUNCTIONS = "app.kubernetes.io/managed-by=headrace"
PATHS = {"/apis/apps/v1/deployments": "Deployment", "/apis/serving.knative.dev/v1/services": "Service"}
SECONDS = 0.2


@asynccontextmanager
async def ready_pods(api: Api) -> AsyncIterator[None]:
    """Every function is ready a moment after it was applied, at zero or not."""
    saying = asyncio.create_task(_say(api))
    try:
        yield
    finally:
        saying.cancel()
        await asyncio.wait([saying])


async def _say(api: Api) -> None:
    # What an earlier test has left says what that test made it say.
    said: set[str] = set()
    while True:
        for path, kind in PATHS.items():
            found = (await api.get(f"{path}?labelSelector={FUNCTIONS}")).body
            for one in found.get("items") or ():
                uid, generation = one["metadata"]["uid"], one["metadata"]["generation"]
                if uid not in said or (one.get("status") or {}).get("observedGeneration") != generation:
                    said.add(uid)
                    root, _, plural = path.rpartition("/")
                    place = f"{root}/namespaces/{one['metadata']['namespace']}/{plural}/{one['metadata']['name']}"
                    # It may be gone by now.
                    await api.merge(f"{place}/status", {"status": ready_status(kind, one)})
        await asyncio.sleep(SECONDS)


def ready_status(kind: str, one: Mapping[str, Any]) -> dict[str, Any]:
    """As it is said of a function whose pods are ready, or were."""
    generation = one["metadata"].get("generation", 1)
    if kind == "Deployment":
        complete = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
        conditions = [{"type": "Available", "status": "True"}, complete]
        return {"observedGeneration": generation, "conditions": conditions}
    revision = f"{one['metadata']['name']}-{generation:05}"
    conditions = [{"type": kind, "status": "True"} for kind in ("ConfigurationsReady", "Ready", "RoutesReady")]
    revisions = {"latestCreatedRevisionName": revision, "latestReadyRevisionName": revision}
    return {"observedGeneration": generation, "conditions": conditions, **revisions}
