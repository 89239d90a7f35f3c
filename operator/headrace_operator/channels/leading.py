"""What changes make work: from the watches to the queue, and from the queue to passes over channels.

Every change of a channel, of one of its children, of a Subscription that it mentions or of an object that it asks for
queues the channel; so does what the scaler finds. All of it happens only while this operator leads. The watches are
kept by the others, too, so that who takes over knows everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import log
from headrace.io.process.trouble import Trouble
from headrace_operator.channels import channel_object
from headrace_operator.channels.child import CHANNEL_ANNOTATION, title
from headrace_operator.channels.one_channel import Cluster, OneChannel
from headrace_operator.channels.work_queue import WorkQueue
from headrace_operator.kube.api import Body, passes
from headrace_operator.kube.kinds import CHANNEL, Key, key
from headrace_operator.scaling import waking
from headrace_operator.scaling.waking import Waking

SHORTEST_WAIT = 0.1
# After that time without our status the channel is looked at again.
FOREIGN_STATUS_SECONDS = 1.0
STRAYS_SECONDS, REFUSED_SECONDS = 5.0, 60.0

_log = log.get("operator")


class Leading:
    """Keeps all channels as they should be, while `run`.

    Attributes:
        queue: of the channels; empty and still while another operator leads.
    """

    def __init__(
        self, cluster: Cluster, passes: OneChannel, waking: Waking, *, workers: int, share: int, resync: float
    ) -> None:
        """Args:
        share: so many of the workers may be busy with one namespace.
        """
        self.queue: WorkQueue[Key] = WorkQueue(_namespace)
        self._cluster = cluster
        self._passes = passes
        self._waking = waking
        self._workers = workers
        self._share = share
        self._resync = resync
        self._active = False
        self._sparing = log.Sparing()
        self._trouble = Trouble()
        self._removed = asyncio.Event()
        self._places: dict[str, Key] = {}
        self._mentions: dict[str, set[Key]] = {}
        cluster.channels.listeners.append(self._on_channel)
        cluster.children.listeners.append(self._on_child)
        cluster.related.listeners.append(self._on_related)
        passes.on_pass.append(self._on_pass)
        waking.on_trouble.append(self._on_trouble)

    async def run(self) -> None:
        """Work until cancelled; whatever was left undone before is found by the first pass over every channel."""
        await self._cluster.channels.wait_until_listed()
        await self._cluster.children.watch_what_is_served()
        self.queue = WorkQueue(_namespace)
        self._cluster.children.begin()
        self._active = True
        try:
            self.queue_all()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.queue.run(self._work, self._workers, self._share), name="queue")
                tasks.create_task(self._waking.scaler.run(), name="scaler")
                tasks.create_task(self._waking.tell_of_backlogs(), name="backlogs")
                tasks.create_task(self._resync_for_ever(), name="resync")
                tasks.create_task(self._look_for_strays(), name="strays")
        finally:
            self._active = False

    def queue_all(self) -> None:
        for channel in self._cluster.channels:
            self._add(key(channel))

    def passes_ask_again(self) -> None:
        """The cluster serves other kinds than before, or another `reconcile` answers: what it wants to see is asked."""
        self._passes.ask_again()
        self.queue_all()

    async def _work(self, place: Key) -> None:
        passing = asyncio.create_task(self._passes.work(place), name=f"channel-{'/'.join(place)}")
        try:
            await asyncio.wait([passing])
        except asyncio.CancelledError:
            passing.cancel()
            await asyncio.wait([passing])
            raise
        error = passing.exception()
        if error is None:
            self._note_done(place, passing.result())
        elif isinstance(error, HeadraceError):
            self._passes.note_problem(place, error)
            pause = self.queue.note_failure(place)
            if isinstance(error, Unavailable) and error.retry_after > pause:
                self.queue.add_after(place, error.retry_after)
        else:
            # What nobody has foreseen is the failure of this channel alone.
            words = "a pass failed in a way that is not foreseen, trying again"
            left_out = self._sparing.admit(words)
            if left_out is not None:
                _log.error(words, channel="/".join(place), exc_info=error, **log.more(left_out))
            self.queue.note_failure(place)

    def _note_done(self, place: Key, wait: float | None) -> None:
        self.queue.note_success(place)
        channel = self._cluster.channels.get(place)
        if channel is None:
            self.queue.forget(place)
        elif wait is not None:
            self.queue.add_after(place, max(SHORTEST_WAIT, wait))
        if channel is not None and not self._passes.status_is_ours(channel):
            self.queue.add_after(place, FOREIGN_STATUS_SECONDS)

    async def _resync_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._resync)
            self.queue_all()

    async def _look_for_strays(self) -> None:
        """Delete children whose channel is gone for good: its finalizer was taken away by force.

        And shared ones that nobody wants: the last one that did has gone while no operator was there, or while not all
        channels were seen yet.
        """
        while True:
            self._removed.clear()
            await asyncio.sleep(STRAYS_SECONDS)
            for spot, body in list(self._cluster.children.all()):
                uid = self._cluster.children.channel_of(body)
                if uid is not None and uid not in self._places and self._cluster.channels.complete:
                    await self._remove_stray(spot, body, uid)
            if not await self._release_shared():
                await asyncio.sleep(REFUSED_SECONDS)
            elif not self._cluster.children.unwanted:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._resync):
                        await self._removed.wait()

    async def _release_shared(self) -> bool:
        """False when that failed."""
        try:
            problems = [problem.words for _, problem in await self._cluster.children.release()]
        except Unavailable as error:
            problems = [str(error)]
        for words in problems:
            write = _log.warning if self._trouble.note(words) else _log.debug
            write("a shared child that nobody wants can't be deleted, trying again", error=words)
        if not problems:
            self._trouble.over()
        return not problems

    async def _remove_stray(self, spot: Any, body: Body, uid: str) -> None:
        namespace, _, name = (body["metadata"].get("annotations") or {}).get(CHANNEL_ANNOTATION, "").partition("/")
        if not name:
            return
        try:
            channel = await self._cluster.api.get(CHANNEL.path(namespace, name))
            if channel is None or channel["metadata"]["uid"] != uid:
                _log.info("a child's channel is gone, deleting it", child=title(spot))
                await self._cluster.api.delete(spot[0].path(*spot[1]), body["metadata"]["uid"])
        except (Unavailable, Refused) as error:
            write = _log.debug if passes(error) else _log.warning
            write("a child without channel can't be deleted", child=title(spot), error=str(error))

    def _add(self, place: Key) -> None:
        if self._active:
            self.queue.add(place)

    def _on_channel(self, old: Body | None, new: Body | None) -> None:
        body = new or old
        assert body is not None
        place = key(body)
        self._index(place, old, new)
        if new is None:
            self._waking.remove(place)
            self._removed.set()
        elif waking.changed_for_scaler(old, new):
            self._waking.put(new)
        if old is None or new is None or not channel_object.says_the_same(old, new):
            self._add(place)
        elif self._active and not self.queue.works_on(place) and not self._passes.status_is_ours(new):
            self.queue.add_after(place, FOREIGN_STATUS_SECONDS)

    def _on_child(self, uid: str) -> None:
        place = self._places.get(uid)
        if place is not None:
            self._add(place)

    def _on_related(self, uid: str, asking: frozenset[Key]) -> None:
        for place in self._mentions.get(uid, set()) | asking:
            self._add(place)

    def _on_pass(self, channel: Mapping[str, Any]) -> None:
        self._waking.put(channel, look=True)

    def _on_trouble(self, place: Key, seconds: float) -> None:
        if self._active:
            self.queue.add_after(place, seconds)

    def _index(self, place: Key, old: Body | None, new: Body | None) -> None:
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


def _namespace(place: Key) -> str:
    return place[0]
