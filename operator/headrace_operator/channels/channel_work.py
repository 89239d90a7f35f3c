"""The work on channels: a change queues a channel, workers pass over it, and a failed pass is tried again later.

A channel is also queued when the scaler finds trouble, when its last pass has asked for another one, and now and then
together with all others. This module knows no place: the channels may be an API server's or a laptop's files. Run by
`headrace_operator.channels.leadership` and by `headrace up`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from headrace.core.errors import HeadraceError, Unavailable
from headrace.io.process import log
from headrace_operator.channels import channel_object
from headrace_operator.channels.one_channel import OneChannel
from headrace_operator.channels.work_queue import WorkQueue
from headrace_operator.channels.world import World
from headrace_operator.kube.api import Body
from headrace_operator.kube.kinds import Key, key
from headrace_operator.scaling.channel_scaler import ChannelScaler

SHORTEST_WAIT = 0.1
# After that time without our status the channel is looked at again.
FOREIGN_STATUS_SECONDS = 1.0

_log = log.get("operator")


class ChannelWork:
    """Keeps all channels of a world as they should be while `run` runs, and has the scaler serve them.

    Attributes:
        queue: the queue of the channels; empty and at rest while `run` does not run.
        served: the scaler with these channels.
        on_end: called at the end of each pass with its channel, and with the error if the pass has failed.
    """

    def __init__(
        self,
        world: World,
        passes: OneChannel,
        served: ChannelScaler,
        *,
        workers: int,
        share: int | None = None,
        resync: float = inf,
    ) -> None:
        """Args:
        share: how many workers may be busy with one namespace; None: all of them.
        resync: seconds after which every channel is passed over though nothing has changed.
        """
        self.queue: WorkQueue[Key] = WorkQueue(_namespace)
        self.on_end: list[Callable[[Key, BaseException | None], None]] = []
        self._channels = world.channels
        self._passes = passes
        self.served = served
        self._workers = workers
        self._share = share
        self._resync = resync
        self._active = False
        self._sparing = log.Sparing()
        self._channels.listeners.append(self._on_channel)
        passes.on_answer.append(served.put)
        served.on_trouble.append(self._add_after)

    async def run(self) -> None:
        """Work until cancelled; the first pass over every channel finds the work that was left undone before."""
        self.queue = WorkQueue(_namespace)
        self._active = True
        try:
            self.add_all()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.queue.run(self._work, self._workers, self._share), name="queue")
                tasks.create_task(self.served.scaler.run(), name="scaler")
                tasks.create_task(self._resync_for_ever(), name="resync")
        finally:
            self._active = False

    def add(self, place: Key) -> None:
        """Pass over the channel soon."""
        if self._active:
            self.queue.add(place)

    def add_all(self) -> None:
        """Pass over every channel soon."""
        for channel in self._channels:
            self.add(key(channel))

    def _add_after(self, place: Key, seconds: float) -> None:
        if self._active:
            self.queue.add_after(place, seconds)

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
        else:
            self._note_failure(place, error)
        for listener in self.on_end:
            listener(place, error)

    def _note_failure(self, place: Key, error: BaseException) -> None:
        pause = self.queue.note_failure(place)
        if isinstance(error, HeadraceError):
            self._passes.note_problem(place, error)
            if isinstance(error, Unavailable) and error.retry_after > pause:
                self.queue.add_after(place, error.retry_after)
        else:
            # An error that nobody has foreseen is the failure of this channel alone.
            words = "a pass failed in a way that is not foreseen, trying again"
            left_out = self._sparing.admit(words)
            if left_out is not None:
                _log.error(words, channel="/".join(place), exc_info=error, **log.more(left_out))

    def _note_done(self, place: Key, wait: float | None) -> None:
        self.queue.note_success(place)
        channel = self._channels.get(place)
        if channel is None:
            self.queue.forget(place)
        elif wait is not None:
            self.queue.add_after(place, max(SHORTEST_WAIT, wait))
        if channel is not None and not self._passes.status_is_ours(channel):
            self.queue.add_after(place, FOREIGN_STATUS_SECONDS)

    async def _resync_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._resync)
            self.add_all()

    def _on_channel(self, old: Body | None, new: Body | None) -> None:
        body = new or old
        assert body is not None
        place = key(body)
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self.served.remove(place)
        if old is None or new is None or not channel_object.says_the_same(old, new):
            self.add(place)
        elif not self.queue.works_on(place) and not self._passes.status_is_ours(new):
            self._add_after(place, FOREIGN_STATUS_SECONDS)


def _namespace(place: Key) -> str:
    return place[0]
