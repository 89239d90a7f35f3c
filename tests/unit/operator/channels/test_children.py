"""Children while the API server does not say that it serves their kind, as at its start; and many children."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

from headrace.core.errors import Refused
from headrace_operator.channels.children import CERTIFICATE, Children
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

    def __init__(self, namespace: str = "shop") -> None:
        self.namespace = namespace
        self.deleted: list[str] = []
        self.applied = 0

    async def list(self, path: str, _selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        labels = {"app.kubernetes.io/managed-by": "headrace", "headrace.dev/channel-uid": UID}
        owner = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind, "uid": UID, "controller": True}
        metadata = {
            "name": "forward-1",
            "namespace": self.namespace,
            "uid": "k",
            "resourceVersion": "7",
            "labels": labels,
            "ownerReferences": [owner],
        }
        return ([{"metadata": metadata}] if KNATIVE.api_version in path else []), "7"

    async def watch(self, _path: str, _parameters: Mapping[str, str]) -> AsyncIterator[None]:
        yield None
        await asyncio.Event().wait()

    async def get(self, _path: str) -> None:
        return None

    async def apply(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.applied += 1
        noted = {"managedFields": [{"manager": "headrace", "operation": "Apply"}], "resourceVersion": "8"}
        return {**body, "metadata": {**body["metadata"], "uid": "k", **noted}}

    async def delete(self, path: str, _uid: str) -> None:
        self.deleted.append(path)


class Served:
    """Discovery, of an API server that is starting: at first it serves all kinds, then no Knative."""

    starting = False

    def serves(self, api_version: str) -> bool:
        return api_version == KNATIVE.api_version and not self.starting

    async def by_kind(self, _api_version: str, _kind: str) -> Kind | None:
        return None if self.starting else KNATIVE


@asynccontextmanager
async def watched(server: ApiServer, served: Served) -> AsyncIterator[Children]:
    """Children that are listed."""
    async with asyncio.TaskGroup() as tasks:
        watches: list[asyncio.Task[None]] = []
        api, discovery = cast("KubeApi", server), cast("Discovery", served)
        children = Children(api, discovery, Cache(CHANNEL), lambda work: watches.append(tasks.create_task(work)))
        try:
            async with asyncio.timeout(30):
                await children.watch_what_is_served()
                yield children
        finally:
            for watch in watches:
                watch.cancel()


async def test_a_child_whose_kind_is_not_served_this_moment_is_not_taken_for_unwanted() -> None:
    server, served = ApiServer(), Served()
    async with watched(server, served) as children:
        served.starting = True
        outcome = await children.make_so(channel(), [ANSWER])
        assert server.deleted == []
        assert "the cluster does not serve this kind" in outcome.problems[0].words
        # Told apart from one that is really not wanted.
        await children.make_so(channel(), [])
        assert [path.split("/")[-1] for path in server.deleted] == ["forward-1"]


async def test_an_operator_that_may_not_see_certificates_does_all_its_other_work() -> None:
    class Unprepared(ApiServer):
        async def list(self, path: str, selection: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
            if path == CERTIFICATE.path():
                raise Refused("certificates.cert-manager.io is forbidden", status=403)
            return await super().list(path, selection)

    class Certified(Served):
        def serves(self, api_version: str) -> bool:
            return api_version == CERTIFICATE.api_version or super().serves(api_version)

    async with watched(Unprepared(), Certified()) as children:
        assert children.apis == {KNATIVE.api_version}
    async with watched(ApiServer(), Certified()) as children:
        assert children.apis == {KNATIVE.api_version, CERTIFICATE.api_version}


async def test_what_bears_a_channels_uid_in_a_strangers_namespace_is_no_child_of_it() -> None:
    server, parent = ApiServer("evil"), channel()
    async with watched(server, Served()) as children:
        children.system_namespace = "knative-eventing"
        assert children.observed(parent) == {}
        await children.make_so(parent, ())
        assert server.deleted == []

        children.system_namespace = "evil"
        assert list(children.observed(parent)[KNATIVE.title]) == ["evil/forward-1"]


async def test_while_a_channel_has_thousands_of_children_the_operator_answers_others() -> None:
    server, turns = ApiServer(), 0
    many = [{**ANSWER, "metadata": {"name": f"forward-{each}"}} for each in range(3_000)]

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with watched(server, Served()) as children:
        task = asyncio.create_task(other())
        outcome = await children.make_so(channel(), many)
        first, turns = turns, 0
        # All of them are there now.
        await children.make_so(channel(), many)
        task.cancel()

    assert outcome.problems == ()
    assert server.applied == 3_000
    assert first > 80
    assert turns > 80


async def test_a_channel_is_told_of_its_neighbours_functions_in_the_system_namespace_and_of_no_forged_ones() -> None:
    def forwards(stem: str, place: str, count: int) -> list[dict[str, Any]]:
        names = (f"forward-{stem}-{each}" for each in range(count))
        return [{**ANSWER, "metadata": {"name": name, "namespace": place}} for name in names]

    async with watched(ApiServer(), Served()) as children:
        children.system_namespace = "knative-eventing"
        parent = channel()
        await children.make_so(channel(name="bills", uid="b"), forwards("bills", "knative-eventing", 3))
        await children.make_so(channel(name="carts", uid="c"), forwards("carts", "evil", 2))
        await children.make_so(channel(namespace="bank", uid="d"), forwards("bank", "knative-eventing", 1))
        await children.make_so(parent, forwards("own", "knative-eventing", 2))

        assert {place: one.others for place, one in children.guests(parent).items()} == {"knative-eventing": 3}
