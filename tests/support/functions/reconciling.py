"""The hook on a real server, with a record of its requests to the server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.channel import truth
from headrace.core.delivery.subscriber import Subscriber, from_metadata
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from headrace.reconcile import Around, reconcile
from tests.support.functions.children import as_observed
from tests.support.kube.pods import ready_status

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
_READS = ("STREAM.INFO", "STREAM.LIST", "STREAM.NAMES", "CONSUMER.INFO", "CONSUMER.LIST")


class WatchedApi(JetStreamApi):
    """The JetStream API; `changes` are the calls that were not mere questions."""

    def __init__(self, connection: Client) -> None:
        super().__init__(connection)
        self.changes: list[str] = []

    async def call(
        self, subject: str, body: Mapping[str, Any] | None = None, *, timeout: float = 5.0
    ) -> dict[str, Any]:
        if not subject.startswith(_READS):
            self.changes.append(subject)
        return await super().call(subject, body, timeout=timeout)


class Hook:
    """`reconcile` as Metacontroller would call it.

    Attributes:
        now: the time of the next call; tests move it.
        children: the channel's objects in Kubernetes.
        pods: the wanted children are there with the next call, and ready.
        around: what surrounds the next call.
    """

    def __init__(self, connection: Client, around: Around | None = None, **settings: Any) -> None:
        self.around = around
        self.connection = connection
        self.api = WatchedApi(connection)
        self.jetstream = JetStream(connection, self.api)
        self._admin = Admin(self.api, self.jetstream)
        self.now = NOON
        self.children: dict[str, Any] = {}
        self.pods = False
        # What channels may name is the matter of a test of its own.
        self._settings = ReconcileSettings(**{"names": "any", **settings})

    async def sync(
        self,
        parent: Mapping[str, Any],
        subscriptions: Iterable[Mapping[str, Any]] | None = None,
        absent: Iterable[str] = (),
    ) -> dict[str, Any]:
        """One call of sync; the changes before are forgotten.

        Args:
            subscriptions: all that there are; None: nobody says.
            absent: uids that the API server does not have.
        """
        if subscriptions is None:
            return await self._call("sync", parent, finalizing=False)
        related = {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in subscriptions}
        extension = {"complete": [truth.KIND], "absent": list(absent)}
        return await self._call("sync", parent, finalizing=False, related={truth.KIND: related}, headrace=extension)

    async def finalize(self, parent: Mapping[str, Any]) -> dict[str, Any]:
        return await self._call("finalize", parent, finalizing=True)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def changes(self) -> list[str]:
        return self.api.changes

    async def stream(self, name: str) -> dict[str, Any] | None:
        """The configuration that the server has, without what it adds to metadata itself."""
        info = await self.api.find(f"STREAM.INFO.{name}")
        return None if info is None else _plain(info["config"])

    async def consumer(self, stream: str, durable: str) -> dict[str, Any] | None:
        info = await self.api.find(f"CONSUMER.INFO.{stream}.{durable}")
        return None if info is None else _plain(info["config"])

    async def subscriber(self, stream: str, durable: str) -> Subscriber | None:
        """What the consumer's metadata says."""
        config = await self.consumer(stream, durable)
        return None if config is None else from_metadata(config["metadata"])

    async def durables(self, stream: str) -> list[str]:
        return sorted([info["name"] async for info in self.api.consumers(stream)])

    async def _call(self, verb: str, parent: Mapping[str, Any], *, finalizing: bool, **more: Any) -> dict[str, Any]:
        self.api.changes.clear()
        body = {
            "controller": {},
            "parent": parent,
            "children": self.children,
            "related": {},
            "finalizing": finalizing,
            **more,
        }
        asked = json.dumps(body).encode()
        answer = await reconcile(
            verb, asked, api=self._admin, settings=self._settings, now=self.now, around=self.around
        )
        if self.pods:
            made = [{**one, "status": ready_status(one["kind"], one)} for one in answer["children"]]
            self.children = as_observed(made, str(parent["metadata"]["namespace"]))
        return answer


def condition(answer: Mapping[str, Any], type_: str) -> dict[str, str]:
    """One condition of the answer's status."""
    found: dict[str, str] = next(one for one in answer["status"]["conditions"] if one["type"] == type_)
    return found


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in (config.get("metadata") or {}).items() if not key.startswith("_nats")}
    return {**config, "metadata": metadata}
