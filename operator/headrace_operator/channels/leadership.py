"""What only the one operator that leads a cluster does: it looks after children that change, or that nobody wants.

A channel is queued when one of its children changes, a Subscription that it mentions, or an object that it asks for;
all other reasons are `headrace_operator.channels.channel_work`'s. The operators that do not lead keep their watches,
too, so that whichever takes over knows everything.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from headrace.core.channel.child_marks import CHANNEL_ANNOTATION
from headrace.core.errors import Refused, Unavailable
from headrace.io.process import log
from headrace.io.process.trouble import Trouble
from headrace_operator.channels import channel_object
from headrace_operator.channels.channel_work import ChannelWork
from headrace_operator.channels.child import Spot, title
from headrace_operator.channels.cluster_world import ClusterWorld
from headrace_operator.kube.api import Body, passes
from headrace_operator.kube.kinds import CHANNEL, Key, is_name, key

STRAYS_SECONDS, REFUSED_SECONDS = 5.0, 60.0

_log = log.get("operator")


class Leadership:
    """Keeps all channels of a cluster as they should be, while `run`."""

    def __init__(self, world: ClusterWorld, work: ChannelWork, *, resync: float) -> None:
        """Args:
        resync: seconds between looks for unwanted children while nothing has vanished.
        """
        self._world = world
        self._children = world.children
        self._work = work
        self._resync = resync
        self._trouble = Trouble()
        self._removed = asyncio.Event()
        self._places: dict[str, Key] = {}
        self._mentions: dict[str, set[Key]] = {}
        world.channels.listeners.append(self._on_channel)
        world.children.listeners.append(self._on_child)
        world.related.listeners.append(self._on_related)

    async def run(self) -> None:
        await self._world.channels.wait_until_listed()
        await self._children.watch_what_is_served()
        self._children.begin()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work.run(), name="work")
            tasks.create_task(self._work.served.tell_of_backlogs(), name="backlogs")
            tasks.create_task(self._look_for_strays(), name="strays")

    def ask_again(self) -> None:
        """Ask `reconcile` again what it wants to see: the kinds that are served have changed, or `reconcile` has."""
        self._world.ask_again()
        self._work.add_all()

    async def _look_for_strays(self) -> None:
        """Delete children whose channel is gone for good, because its finalizer was taken away by force.

        Delete those that are where their channel can't have any: they are of an earlier installation, or forged.
        Delete also shared children that no channel wants: the last one that did has gone while no operator was there,
        or before all channels were seen.
        """
        while True:
            self._removed.clear()
            await asyncio.sleep(STRAYS_SECONDS)
            for spot, body in list(self._children.all()):
                uid = self._children.channel_of(body)
                if uid is not None and self._world.channels.complete:
                    await self._remove_if_stray(spot, body, uid)
            if not await self._release_shared():
                await asyncio.sleep(REFUSED_SECONDS)
            elif not self._children.unwanted:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._resync):
                        await self._removed.wait()

    async def _release_shared(self) -> bool:
        """Delete the unwanted shared children; False when that failed."""
        try:
            problems = [problem.words for _, problem in await self._children.release()]
        except Unavailable as error:
            problems = [str(error)]
        for words in problems:
            write = _log.warning if self._trouble.note(words) else _log.debug
            write("a shared child that nobody wants can't be deleted, trying again", error=words)
        if not problems:
            self._trouble.over()
        return not problems

    async def _remove_if_stray(self, spot: Spot, body: Body, uid: str) -> None:
        try:
            if await self._is_stray(spot, body, uid):
                _log.info("a child has no channel, or not here: deleting it", child=title(spot))
                await self._world.api.delete(spot[0].path(*spot[1]), body["metadata"]["uid"])
        except (Unavailable, Refused) as error:
            write = _log.debug if passes(error) else _log.warning
            write("a child without channel can't be deleted", child=title(spot), error=str(error))

    async def _is_stray(self, spot: Spot, body: Body, uid: str) -> bool:
        kept, (_, (here, _)) = self._places.get(uid), spot
        if kept is not None:
            return not self._children.is_at_home(here, kept[0])
        namespace, _, name = (body["metadata"].get("annotations") or {}).get(CHANNEL_ANNOTATION, "").partition("/")
        # Whoever made the object may have written anything there.
        if not (is_name(namespace) and is_name(name)):
            return False
        channel = await self._world.api.get(CHANNEL.path(namespace, name))
        return channel is None or channel["metadata"]["uid"] != uid

    def _on_child(self, uid: str, namespace: str) -> None:
        place = self._places.get(uid)
        if place is not None and self._children.is_at_home(namespace, place[0]):
            self._work.add(place)

    def _on_related(self, uid: str, asking: frozenset[Key]) -> None:
        for place in self._mentions.get(uid, set()) | asking:
            self._work.add(place)

    def _on_channel(self, old: Body | None, new: Body | None) -> None:
        body = new or old
        assert body is not None
        place = key(body)
        if new is None:
            self._removed.set()
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._places.pop(old["metadata"]["uid"], None)
        if new is not None:
            self._places[new["metadata"]["uid"]] = place
        before = channel_object.mentioned(old) if old is not None else set()
        after = channel_object.mentioned(new) if new is not None else set()
        for uid in before - after:
            places = self._mentions.get(uid, set())
            places.discard(place)
            if not places:
                self._mentions.pop(uid, None)
        for uid in after - before:
            self._mentions.setdefault(uid, set()).add(place)
