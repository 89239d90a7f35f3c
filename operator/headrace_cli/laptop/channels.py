"""Keeps every channel as its manifest says, by calling `reconcile` when something changes and when it asks to be.

The laptop's stand-in for the operator's queue: knows when to call, never what a channel needs. Status is
kept here, as the API server would keep it, and goes along as `parent.status`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.core.channel.hook import HookResponse
from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.nats.stream import CHANNEL_KEY, NAMESPACE_KEY, ROLE_KEY, Role
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.process import log
from headrace_cli.laptop.child import TELL_SECONDS
from headrace_cli.laptop.status_changes import changes
from headrace_cli.manifests.manifests import Key, Manifests

FIRST_RETRY, LONGEST_RETRY = 0.2, 5.0
# What can't be asked, or is refused an answer, is a fault of ours; there is no hurry.
REFUSED_RETRY = 30.0
SHORTEST_RESYNC = 1.0
# The scaler's sweep tells of a missing stream every few seconds, also while it is being made.
REPAIR_SECONDS = 5.0
# Trouble comes in crowds.
LOOK_SECONDS = 2.0
# What to do on a laptop, by the words in which the server refuses.
ADVICE = {
    "replicas > 1 not supported in non-clustered mode": "write replicas: 1, or use --nats with a cluster",
}

_log = log.get("up")

Parent = Mapping[str, Any]
Call = Callable[[Parent], Awaitable[HookResponse]]
Work = Callable[["Channel"], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Channel:
    """One channel: its manifest, and what reconcile last said of it."""

    key: Key
    parent: Parent
    status: Mapping[str, Any] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    synced_at: float = float("-inf")
    error: str = ""
    looking: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return "/".join(self.key)

    @property
    def stream(self) -> str | None:
        stream = self.status.get("stream")
        return str(stream) if stream else None

    @property
    def current(self) -> Mapping[str, Any]:
        """The object as an API server would show it."""
        return {**self.parent, "status": self.status}

    @property
    def told(self) -> Mapping[str, Any]:
        """The same, with why it could not be reconciled."""
        return {**self.current, "error": self.error}

    def condition(self, kind: str = "Ready") -> Mapping[str, Any]:
        found = (each for each in self.status.get("conditions") or () if each.get("type") == kind)
        return next(found, {})

    @property
    def ready(self) -> bool:
        """Ready as it is now, not as it was before the last edit."""
        generation = self.parent["metadata"].get("generation")
        return self.condition().get("status") == "True" and self.status.get("observedGeneration") == generation

    @property
    def complaint(self) -> str:
        """Why it is not ready, in a few words."""
        ready = self.condition()
        words = f"{ready.get('reason', '')}: {ready.get('message', '')}".strip(": ")
        advice = "".join(f"; {advice}" for sign, advice in ADVICE.items() if sign in words)
        return self.error or words + advice or "reconcile has not answered yet"


class Channels:
    """All channels of the manifests, and those that are going.

    Attributes:
        on_synced: called with a channel whenever reconcile has answered for it.
        on_told: called whenever there may be something new to say of them.
    """

    def __init__(self, sync: Call, finalize: Call) -> None:
        self._sync = sync
        self._finalize = finalize
        self._channels: dict[Key, Channel] = {}
        self._going: dict[Key, Channel] = {}
        self._progress = asyncio.Event()
        self.on_synced: list[Callable[[Channel], None]] = []
        self.on_told: list[Callable[[], None]] = []

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._channels.values())

    @property
    def streams(self) -> list[str]:
        return [channel.stream for channel in self._channels.values() if channel.stream]

    @property
    def late(self) -> list[str]:
        """Channels that are not ready, each with the reason."""
        return [f"{channel.name} ({channel.complaint})" for channel in self if not channel.ready]

    def apply(self, manifests: Manifests) -> None:
        """Make these the channels: new and changed ones are synced, vanished ones finalized."""
        for key in self._channels.keys() - manifests.channels.keys():
            channel = self._channels.pop(key)
            _log.info("channel is in no file any more, taking it down", channel=channel.name)
            self._going[key] = channel
            self._start(channel, self._take_down)
        for key, parent in manifests.channels.items():
            known = self._channels.get(key)
            if known is not None:
                known.parent = parent
                known.changed.set()
                continue
            # One that comes back while it is going keeps its status; what is gone by now is made again.
            back = self._going.pop(key) if key in self._going else Channel(key, parent)
            channel = self._channels[key] = back
            channel.parent = parent
            self._start(channel, self._keep)
        self.tell()

    def tell(self) -> None:
        """There may be something new to say."""
        for listener in self.on_told:
            listener()

    def repair(self, stream: str) -> None:
        """Something that reconcile had made is missing on the server."""
        for channel in self._channels.values():
            lost = channel.stream == stream and channel.condition("StreamReady").get("status") == "True"
            if lost and time.monotonic() > channel.synced_at + REPAIR_SECONDS:
                _log.warning("stream or consumer is missing, reconciling", channel=channel.name, stream=stream)
                channel.changed.set()

    def look_again(self, stream: str) -> None:
        """A condition of its channel may have changed: reconcile soon, and not for each event."""
        for channel in self._channels.values():
            if channel.stream == stream and not channel.looking:
                channel.looking = True
                wait = max(0.0, channel.synced_at + LOOK_SECONDS - time.monotonic())
                asyncio.get_running_loop().call_later(wait, channel.changed.set)

    async def settled(self, seconds: float) -> bool:
        """Wait until every channel is ready, and tell of it if that takes long; False when the time is up before."""
        telling = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell_of_waiting, seconds - TELL_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self.all_ready()
        except TimeoutError:
            return False
        finally:
            telling.cancel()
        return True

    async def all_ready(self) -> None:
        """Wait until every channel is ready, however long that takes."""
        while self.late:
            self._progress.clear()
            await self._progress.wait()

    async def close(self) -> None:
        """Stop calling; nothing is taken down."""
        tasks = [each.task for each in (*self._channels.values(), *self._going.values()) if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell_of_waiting(self, left: float) -> None:
        _log.warning("ready waits for channels", at_most_s=round(left), channels=self.late)

    def _start(self, channel: Channel, work: Work, *, pause: float = 0.0) -> None:
        if channel.task is not None:
            channel.task.cancel()
        channel.task = asyncio.create_task(_later(channel, work, pause), name=f"channel-{channel.name}")
        channel.task.add_done_callback(lambda task: self._on_end(channel, work, task))

    def _on_end(self, channel: Channel, work: Work, task: asyncio.Task[None]) -> None:
        """What nobody has foreseen is the failure of this channel alone: told of, and tried again."""
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        before, channel.error = channel.error, f"{type(error).__name__}: {error}"
        if channel.error != before:
            words = "reconciling failed in a way that is not foreseen, trying again"
            _log.error(words, channel=channel.name, exc_info=error)
        if channel.task is task:
            self._start(channel, work, pause=REFUSED_RETRY)

    async def _keep(self, channel: Channel) -> None:
        pause = FIRST_RETRY
        while True:
            channel.changed.clear()
            channel.looking = False
            try:
                answer = await self._sync(channel.current)
            except HeadraceError as error:
                self._note_error(channel, error)
                wait: float | None = pause if isinstance(error, Unavailable) else REFUSED_RETRY
                pause = min(LONGEST_RETRY, pause * 2)
            else:
                self._note(channel, answer)
                wait = max(SHORTEST_RESYNC, answer.resync_after_seconds) if answer.resync_after_seconds else None
                pause = FIRST_RETRY
            await _changed_or(channel, wait)

    async def _take_down(self, channel: Channel) -> None:
        while True:
            try:
                answer = await self._finalize(channel.current)
            except HeadraceError as error:
                self._note_error(channel, error)
                await asyncio.sleep(LONGEST_RETRY if isinstance(error, Unavailable) else REFUSED_RETRY)
                continue
            if answer.finalized:
                break
            self._note(channel, answer)
            await asyncio.sleep(max(SHORTEST_RESYNC, answer.resync_after_seconds or LONGEST_RETRY))
        _log.info("channel is taken down", channel=channel.name)
        if self._going.get(channel.key) is channel:
            del self._going[channel.key]

    def _note(self, channel: Channel, answer: HookResponse) -> None:
        before, channel.status = channel.status, answer.status or {}
        channel.error = ""
        channel.synced_at = time.monotonic()
        unwell = {one.get("type") for one in before.get("conditions") or () if one.get("status") == "False"}
        names = {entry.get("uid"): entry.get("name") for entry in channel.parent["spec"].get("subscribers") or ()}
        for line in changes(before, channel.status):
            # Of what is well one line a channel is enough, unless it was not well before.
            mended = line.get("condition") in unwell
            well = _log.info if mended or line.get("condition") == "Ready" else _log.debug
            write = well if line["status"] == "True" else _log.warning
            if "subscriber" in line:
                line["subscriber"] = names.get(line["subscriber"]) or line["subscriber"]
            write("status changed", channel=channel.name, **line)
        self._progress.set()
        for listener in self.on_synced:
            listener(channel)
        self.tell()

    def _note_error(self, channel: Channel, error: Exception) -> None:
        if channel.error != str(error):
            _log.warning("reconcile failed, trying again", channel=channel.name, error=str(error))
        channel.error = str(error)
        self.tell()


async def _later(channel: Channel, work: Work, pause: float) -> None:
    if pause:
        await _changed_or(channel, pause)
    await work(channel)


async def _changed_or(channel: Channel, seconds: float | None) -> None:
    """Until the channel has changed, or so many seconds have passed; None: for as long as it takes."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await channel.changed.wait()


async def tell_of_strays(api: JetStreamApi, served: Iterable[str]) -> None:
    """Warn of channels that an earlier run left on the server and that no file holds: they go on taking events."""
    known = set(served)
    with suppress(HeadraceError):
        async for stream in api.streams():
            metadata = stream["config"].get("metadata") or {}
            if metadata.get(ROLE_KEY) == Role.CHANNEL and stream["config"]["name"] not in known:
                channel = f"{metadata.get(NAMESPACE_KEY)}/{metadata.get(CHANNEL_KEY)}"
                words = "channel is in no file, but the server has it: it takes events, and nobody is delivered to"
                _log.warning(words, channel=channel, stream=stream["config"]["name"])
