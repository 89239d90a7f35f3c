"""Children while the API server does not say that it serves their kind: it has such moments when it starts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from headrace_operator.channels.children import Children
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.kinds import CHANNEL, Discovery, Kind
from headrace_operator.kube.watch import Cache
from tests.support.functions.channels import UID, channel

KNATIVE = Kind("serving.knative.dev/v1", "Service", "services")
ANSWER = {
    "apiVersion": "serving.knative.dev/v1",
    "kind": "Service",
    "metadata": {"name": "forward-1"},
    "spec": {"template": {}},
}


class ApiServer:
    """One that has one Knative Service of the channel; what it is asked to delete is kept."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def list(self, path: str, _selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        labels = {"app.kubernetes.io/managed-by": "headrace", "headrace.dev/channel-uid": UID}
        owner = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind, "uid": UID, "controller": True}
        metadata = {
            "name": "forward-1",
            "namespace": "shop",
            "uid": "k",
            "resourceVersion": "7",
            "labels": labels,
            "ownerReferences": [owner],
        }
        return ([{"metadata": metadata}] if KNATIVE.api_version in path else []), "7"

    async def watch(self, _path: str, _parameters: Mapping[str, str]) -> AsyncIterator[None]:
        yield None
        await asyncio.Event().wait()

    async def delete(self, path: str, _uid: str) -> None:
        self.deleted.append(path)


class Served:
    """Discovery, of an API server that is starting: at first it serves all kinds, then no Knative."""

    starting = False

    def serves(self, api_version: str) -> bool:
        return api_version == KNATIVE.api_version and not self.starting

    async def by_kind(self, _api_version: str, _kind: str) -> Kind | None:
        return None if self.starting else KNATIVE


async def test_a_child_whose_kind_is_not_served_this_moment_is_not_taken_for_unwanted() -> None:
    server, served = ApiServer(), Served()
    async with asyncio.TaskGroup() as tasks:
        watches: list[asyncio.Task[None]] = []
        api, discovery = cast("KubeApi", server), cast("Discovery", served)
        children = Children(api, discovery, Cache(CHANNEL), lambda work: watches.append(tasks.create_task(work)))
        try:
            async with asyncio.timeout(30):
                await children.watch_what_is_served()
                served.starting = True
                outcome = await children.make_so(channel(), [ANSWER])
                assert server.deleted == []
                assert "the cluster does not serve this kind" in outcome.problems[0].words
                # Told apart from one that is really not wanted.
                await children.make_so(channel(), [])
                assert [path.split("/")[-1] for path in server.deleted] == ["forward-1"]
        finally:
            for watch in watches:
                watch.cancel()
