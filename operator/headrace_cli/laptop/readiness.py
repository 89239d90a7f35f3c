"""Which channels are ready, why the others are not, and what `headrace up` says of it on standard output.

Scripts wait for its lines. `ready …` comes once, when every channel is ready. Before that, `partly ready …` may come
once, and name those that are not. This module knows a channel by its status and by the error of its last pass; it knows
no process. Used by `headrace_cli.laptop.up`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.core import names
from headrace.core.errors import HeadraceError
from headrace.core.quoting import plain
from headrace.io.process import log
from headrace_cli.laptop.child import TELL_SECONDS
from headrace_operator.channels.channel_object import is_going
from headrace_operator.kube.api import Body
from headrace_operator.kube.kinds import Key, key
from headrace_operator.kube.watch import Cache

# The cure on a laptop, by the words in which the server refuses.
ADVICE = {
    "replicas > 1 not supported in non-clustered mode": "write replicas: 1, or use --nats with a cluster",
}

_log = log.get("up")


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The state of one channel.

    Attributes:
        channel: the object, with the status of reconcile's last answer.
        error: the failure of the passes since that answer; empty: none has failed.
    """

    channel: Body
    error: str

    @property
    def name(self) -> str:
        return "/".join(key(self.channel))

    @property
    def status(self) -> Mapping[str, Any]:
        return self.channel.get("status") or {}

    @property
    def ready(self) -> bool:
        """Is the channel ready as it is now, after the last edit?"""
        generation = self.channel["metadata"].get("generation")
        return self._condition.get("status") == "True" and self.status.get("observedGeneration") == generation

    @property
    def complaint(self) -> str:
        """Why the channel is not ready, in a few words."""
        words = f"{self._condition.get('reason', '')}: {self._condition.get('message', '')}".strip(": ")
        advice = "".join(f"; {advice}" for sign, advice in ADVICE.items() if sign in words)
        return self.error or words + advice or "reconcile has not answered yet"

    @property
    def _condition(self) -> Mapping[str, Any]:
        return next((each for each in self.status.get("conditions") or () if each.get("type") == "Ready"), {})


class AllReady:
    """Whether all channels that are to stay are ready.

    Attributes:
        on_news: called whenever a channel's state may have changed.
    """

    def __init__(self, channels: Cache) -> None:
        self.on_news: list[Callable[[], None]] = []
        self._channels = channels
        self._errors: dict[Key, str] = {}
        self._progress = asyncio.Event()
        channels.listeners.append(self._on_channel)

    def __iter__(self) -> Iterator[ChannelState]:
        return (ChannelState(each, self._errors.get(key(each), "")) for each in self._channels if not is_going(each))

    @property
    def late(self) -> list[str]:
        """Channels that are not ready, each with the reason."""
        return [f"{each.name} ({each.complaint})" for each in self if not each.ready]

    async def settled(self, seconds: float) -> None:
        """Wait until every channel is ready or the time is up, and report a long wait."""
        telling = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell_of_waiting, seconds - TELL_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                await self._all()
        except TimeoutError:
            pass
        finally:
            telling.cancel()

    async def say(self, base: str) -> None:
        """Print the channels that are ready now; if some are not, print once more when all are.

        Args:
            base: URL of `receive`.
        """
        if self.late:
            for each in self:
                if not each.ready:
                    _log.warning("channel is not ready", channel=each.name, why=each.complaint)
            self._print("partly ready", base)
            await self._all()
        self._print("ready", base)

    async def _all(self) -> None:
        while self.late:
            self._progress.clear()
            await self._progress.wait()

    def _print(self, words: str, base: str) -> None:
        urls = [base + names.path(*key(each.channel)) for each in self if each.ready]
        late = self.late
        # The reader of the output may have left, and serving goes on.
        with suppress(OSError):
            told = [words, base, *urls, *(["not ready:", ", ".join(late)] if late else [])]
            print(plain(" ".join(told)), flush=True)

    def _tell_of_waiting(self, left: float) -> None:
        _log.warning("ready waits for channels", at_most_s=round(left), channels=self.late)

    def _on_channel(self, _old: Body | None, _new: Body | None) -> None:
        self._progress.set()
        for listener in self.on_news:
            listener()

    def note_end(self, place: Key, error: BaseException | None) -> None:
        """A pass over a channel has come to its end, or has failed with `error`."""
        before = self._errors.pop(place, None)
        if error is not None:
            words = "" if isinstance(error, HeadraceError) else f"{type(error).__name__}: "
            self._errors[place] = f"{words}{error}"
        if before != self._errors.get(place):
            self._on_channel(None, None)
