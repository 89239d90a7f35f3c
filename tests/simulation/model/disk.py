"""What is on the server's disk, and how much of it a crash or a loss of power leaves.

A crash of the process loses nothing of a stream, and of a consumer what its file has not followed yet, a tenth of a
second. A loss of power loses what was not synced: of a stream all since the last sync, which the server makes every two
minutes; of a consumer's file what the kernel has not written by itself. Each loses its own part, so that they may
disagree. That streams and consumers exist, and their configuration, is never lost here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.model.messages import Messages, Stored
from tests.simulation.model.saved_state import SavedState

if TYPE_CHECKING:
    from tests.simulation.model.consumer import Consumer
    from tests.simulation.model.stream import Stream

SYNC_SECONDS = 120.0
# The server writes a consumer's file ten times a second at most.
_WRITE_SECONDS = 0.1
# The kernel writes by itself what is older.
_WRITEBACK_SECONDS = 30.0

Cut = Callable[[str], float]
"""How much of the unsynced tail of a thing survives, from 0 to 1; the thing is `stream` or `stream/consumer`."""


class _Journal:
    """A stream as it was at its last sync, and what has happened since: a sequence stored, or one deleted."""

    def __init__(self, since: float) -> None:
        self._synced = Messages()
        self._since = since
        self._deeds: list[tuple[float, int, Stored | None]] = []

    def note(self, now: float, sequence: int, message: Stored | None) -> None:
        self._sync(now)
        self._deeds.append((now, sequence, message))

    def cut(self, now: float, share: float) -> Messages:
        """What is left when only this share of the unsynced deeds has reached the disk; it is synced then."""
        self._sync(now)
        survivors = round(len(self._deeds) * share)
        self._apply(survivors)
        self._deeds.clear()
        return self._synced.copy()

    def _sync(self, now: float) -> None:
        """Carry out the syncs that the server has made since the last look."""
        if now - self._since >= SYNC_SECONDS:
            self._since += (now - self._since) // SYNC_SECONDS * SYNC_SECONDS
            synced = sum(deed[0] <= self._since for deed in self._deeds)
            self._apply(synced)
            del self._deeds[:synced]

    def _apply(self, count: int) -> None:
        for _, sequence, message in self._deeds[:count]:
            if message is not None:
                self._synced.last = sequence
                self._synced.put(sequence, message)
            elif sequence in self._synced.by_sequence:
                self._synced.remove(sequence)


class _File:
    """A consumer's file: its contents by the time of the write, the latest last."""

    def __init__(self) -> None:
        self.writes: deque[tuple[float, SavedState]] = deque()
        self.timer: asyncio.Handle | None = None
        self.written_at = float("-inf")


class Disk:
    """The disk of one server.

    Attributes:
        sync_always: the server syncs before it acknowledges.
        may_lose_power: keep what a loss of power needs to know; it costs some speed.
        replicated: consumers that come back ahead of their stream stay there, as where replicas lost power together.
    """

    def __init__(self, *, sync_always: bool = False, may_lose_power: bool = False, replicated: bool = False) -> None:
        self.sync_always = sync_always
        self.replicated = replicated
        self.may_lose_power = may_lose_power
        self._journals: dict[str, _Journal] = {}
        self._files: dict[tuple[str, str], _File] = {}

    # What the server writes.

    def stored(self, stream: Stream, sequence: int) -> None:
        self._log(stream, sequence, stream.messages[sequence])

    def removed(self, stream: Stream, sequence: int) -> None:
        self._log(stream, sequence, None)

    def made(self, consumer: Consumer) -> None:
        """A consumer begins: its first state is on disk at once."""
        self._write(consumer, self._file(consumer))

    def changed(self, consumer: Consumer) -> None:
        """The file follows the state a moment later."""
        if consumer.config.get("mem_storage"):
            return
        file = self._file(consumer)
        if file.timer is None:
            loop = asyncio.get_running_loop()
            wait = file.written_at + _WRITE_SECONDS - loop.time()
            file.timer = loop.call_later(max(0.0, wait), self._write, consumer, file)

    def forget(self, consumer: Consumer) -> None:
        file = self._files.pop(_place(consumer), None)
        if file is not None and file.timer is not None:
            file.timer.cancel()

    def forget_stream(self, stream: Stream) -> None:
        self._journals.pop(stream.name, None)

    # What is left.

    def crash(self, consumer: Consumer, older: float = 0.0) -> SavedState:
        """The state in the file when the process has died, or so many seconds before."""
        file = self._file(consumer)
        if file.timer is not None:
            file.timer.cancel()
            file.timer = None
        before = asyncio.get_running_loop().time() - older
        while len(file.writes) > 1 and file.writes[-1][0] > before:
            file.writes.pop()
        return file.writes[-1][1].copy() if file.writes else SavedState()

    def lose_power(self, stream: Stream, cut: Cut) -> None:
        """Cut the stream's tail, and those of its consumers' files."""
        if self.sync_always:
            return
        if not self.may_lose_power:
            raise AssertionError("this disk does not know what was synced: make it with may_lose_power")
        now = asyncio.get_running_loop().time()
        stream.kept = self._journal(stream, now).cut(now, cut(stream.name))
        for consumer in stream.consumers.values():
            file = self._file(consumer)
            unsure = [write for write in file.writes if write[0] > now - _WRITEBACK_SECONDS]
            lost = len(unsure) - round(len(unsure) * cut(f"{stream.name}/{consumer.name}"))
            for _ in range(min(lost, len(file.writes) - 1)):
                file.writes.pop()

    def _log(self, stream: Stream, sequence: int, message: Stored | None) -> None:
        if self.may_lose_power and not self.sync_always:
            now = asyncio.get_running_loop().time()
            self._journal(stream, now).note(now, sequence, message)

    def _journal(self, stream: Stream, now: float) -> _Journal:
        if stream.name not in self._journals:
            self._journals[stream.name] = _Journal(now)
        return self._journals[stream.name]

    def _file(self, consumer: Consumer) -> _File:
        return self._files.setdefault(_place(consumer), _File())

    def _write(self, consumer: Consumer, file: _File) -> None:
        now = asyncio.get_running_loop().time()
        file.timer = None
        file.written_at = now
        file.writes.append((now, consumer.saved.copy()))
        keep = now - _WRITEBACK_SECONDS
        while len(file.writes) > 1 and file.writes[1][0] <= keep:
            file.writes.popleft()


def _place(consumer: Consumer) -> tuple[str, str]:
    return consumer.stream.name, consumer.name
