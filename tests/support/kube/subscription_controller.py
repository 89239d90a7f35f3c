"""A stand-in for Knative's Subscription controller on a real API server, with the races that were measured of it.

Two workers patch the whole of `spec.subscribers` from a cache that is behind, without a resourceVersion. So entries of
live Subscriptions vanish, entries fall back to a former generation or address, and those of deleted Subscriptions come
back for good. Now and then a view is made older than it would be, so that every run has each of these races.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from typing import Any

from tests.support.kube.kube_api import CHANNELS, Answer, Api

SUBSCRIPTIONS = "/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions"
FINALIZER = "subscriptions.messaging.knative.dev"
WORKERS = 2
LAG_SECONDS = 0.02
WATCH_SECONDS = 0.03
# Of a hundred writes so many are from a view that is so many versions old, but no more than that in all: it has to end.
OLD_VIEWS, OLDEST, MOST_OLD = 10, 12, 60

Body = dict[str, Any]


class SubscriptionController:
    """Serves the Subscriptions of one channel; `run` it beside the test.

    Attributes:
        vanished: how often the entry of a live Subscription was taken out.
        fallen_back: how often an entry went back to what it had been before.
        come_back: how often the entry of a Subscription that is gone was put in again.
    """

    def __init__(self, api: Api, namespace: str, channel: str, seed: int = 1) -> None:
        self.vanished = self.fallen_back = self.come_back = 0
        self._api = api
        self._channel_path = f"{CHANNELS.format(namespace=namespace)}/{channel}"
        self._path = SUBSCRIPTIONS.format(namespace=namespace)
        self._chance = random.Random(seed)
        self._old_views = MOST_OLD
        self._subscriptions: dict[str, Body] = {}
        self._buried: set[str] = set()
        self._views: deque[Body] = deque(maxlen=OLDEST)
        self._newest: Body = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            for _ in range(WORKERS):
                tasks.create_task(self._work())

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(WATCH_SECONDS)

    async def _look(self) -> None:
        found = (await self._api.get(self._path)).unwrapped()["items"]
        before, self._subscriptions = self._subscriptions, {one["metadata"]["name"]: one for one in found}
        self._enqueue(name for name, one in self._subscriptions.items() if _version(one) != _version(before.get(name)))
        self._note((await self._api.get(self._channel_path)).unwrapped())

    def _note(self, channel: Body) -> None:
        """The cache moves on, never back; each Subscription is looked at again then."""
        if not self._views or _version(channel) > _version(self._views[-1]):
            self._views.append(channel)
            self._enqueue(self._subscriptions)
        self._note_newest(channel)

    def _note_newest(self, channel: Body) -> None:
        if _version(channel) > _version(self._newest):
            self._newest = channel

    def _enqueue(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._queued:
                self._queued.add(name)
                self._queue.put_nowait(name)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            self._queued.discard(name)
            if name in self._busy:
                # One name is never with two workers.
                self._enqueue([name])
                await asyncio.sleep(WATCH_SECONDS / 10)
                continue
            self._busy.add(name)
            try:
                await self._reconcile(name)
            finally:
                self._busy.discard(name)

    async def _reconcile(self, name: str) -> None:
        found = self._subscriptions.get(name)
        if found is None or not self._views or found["metadata"]["uid"] in self._buried:
            return
        uid = found["metadata"]["uid"]
        view = _entries(self._view())
        if found["metadata"].get("deletionTimestamp"):
            await self._write(view, {key: one for key, one in view.items() if key != uid})
            self._buried.add(uid)
            await self._merge(f"{self._path}/{name}", {"metadata": {"finalizers": None}})
            return
        if FINALIZER not in (found["metadata"].get("finalizers") or ()):
            await self._merge(f"{self._path}/{name}", {"metadata": {"finalizers": [FINALIZER]}})
        await self._write(view, {**view, uid: _entry(found)})
        await self._tell(found)

    def _view(self) -> Body:
        if self._old_views and len(self._views) > 1 and self._chance.randrange(100) < OLD_VIEWS:
            self._old_views -= 1
            return self._chance.choice(self._views)
        return self._views[-1]

    async def _write(self, view: dict[str, Body], wanted: dict[str, Body]) -> None:
        if view == wanted:
            return
        answer = await self._merge(self._channel_path, {"spec": {"subscribers": list(wanted.values()) or None}})
        channel = answer.unwrapped()
        self._note_damage(_entries(self._newest), wanted)
        self._note_newest(channel)
        asyncio.get_running_loop().call_later(self._chance.uniform(0, LAG_SECONDS), self._note, channel)

    def _note_damage(self, before: dict[str, Body], after: dict[str, Body]) -> None:
        live = {
            one["metadata"]["uid"]: one
            for one in self._subscriptions.values()
            if not one["metadata"].get("deletionTimestamp") and one["metadata"]["uid"] not in self._buried
        }
        self.vanished += len(live.keys() & before.keys() - after.keys())
        self.come_back += len(self._buried & after.keys() - before.keys())
        both = live.keys() & before.keys() & after.keys()
        self.fallen_back += sum(after[uid]["generation"] < before[uid]["generation"] for uid in both)

    async def _tell(self, found: Body) -> None:
        """The Subscription's status, by what the channel says of it."""
        metadata = found["metadata"]
        rows = (self._views[-1].get("status") or {}).get("subscribers") or ()
        row: Body = next((one for one in rows if one["uid"] == metadata["uid"]), {})
        known = row.get("observedGeneration") == metadata["generation"]
        ready = str(row.get("ready", "Unknown")) if known else "Unknown"
        status = {"observedGeneration": metadata["generation"], "conditions": [{"type": "Ready", "status": ready}]}
        if status != found.get("status"):
            await self._merge(f"{self._path}/{metadata['name']}/status", {"status": status})

    async def _merge(self, path: str, body: Body) -> Answer:
        answer = await self._api.merge(path, body)
        assert answer.accepted or answer.status == 404, answer.message
        return answer


def _entry(found: Body) -> Body:
    metadata = found["metadata"]
    return {
        "uid": metadata["uid"],
        "name": metadata["name"],
        "generation": metadata["generation"],
        "subscriberUri": found["spec"]["subscriber"]["uri"],
    }


def _entries(channel: Body) -> dict[str, Body]:
    return {one["uid"]: one for one in (channel.get("spec") or {}).get("subscribers") or ()}


def _version(body: Body | None) -> int:
    return int(body["metadata"]["resourceVersion"]) if body else 0
