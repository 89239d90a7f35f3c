"""The delivered messages of one consumer that nobody has acked: which are due again, in which order, and when to look.

It keeps what the server keeps in memory; `saved_state` is what its store has of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tests.simulation.model.saved_state import Pending

_MILLISECOND = 1_000_000
# The server looks a moment late, so that what was delivered together comes again together.
_LATE = _MILLISECOND
SECOND = 1_000_000_000


class Unsettled:
    """Pending messages and the queue of those that come again.

    Attributes:
        pending: by sequence.
        counts: how often each came again.
        queue: sequences that are due again, in the order in which they go out.
    """

    def __init__(self, now: Callable[[], int], look: Callable[[], None]) -> None:
        """Args:
        now: nanoseconds since the epoch.
        look: called when it is time to call `due`.
        """
        self.pending: dict[int, Pending] = {}
        self.counts: dict[int, int] = {}
        self.queue: list[int] = []
        self._now = now
        self._look = look
        self._timer: asyncio.TimerHandle | None = None

    @property
    def watched(self) -> bool:
        """Does a timer run?"""
        return self._timer is not None

    def track(self, sequence: int, delivery: int, ack_wait: int) -> None:
        """A message goes out now: its ack wait begins. It keeps the number of its first delivery."""
        now = self._now()
        if sequence in self.pending:
            self.pending[sequence].time = now
        else:
            self.pending[sequence] = Pending(delivery, now)
        loop = asyncio.get_running_loop()
        if self._timer is None or self._timer.when() > loop.time() + (ack_wait + _LATE) / SECOND:
            self.watch(ack_wait + _LATE)

    def drop(self, sequence: int) -> Pending | None:
        """Forget one, and that it came again; what was pending of it."""
        found = self.pending.pop(sequence, None)
        self.counts.pop(sequence, None)
        self.unqueue(sequence)
        return found

    def forget(self) -> None:
        """Forget all of them."""
        self.pending.clear()
        self.counts.clear()
        self.queue.clear()

    def uncount(self, sequence: int) -> None:
        """It did not go out again after all."""
        self.counts[sequence] -= 1
        if not self.counts[sequence]:
            del self.counts[sequence]

    def again(self, sequences: Iterable[int]) -> None:
        self.queue.extend(sequences)

    def unqueue(self, sequence: int) -> None:
        if sequence in self.queue:
            self.queue.remove(sequence)

    def expired(self, ack_wait: int) -> tuple[list[int], int]:
        """Those whose ack wait is over and that are not queued, in order; and the nanoseconds until the next."""
        now, after = self._now(), ack_wait + _LATE
        found = []
        for sequence, one in self.pending.items():
            elapsed = now - one.time
            if elapsed >= ack_wait:
                if sequence not in self.queue:
                    found.append(sequence)
            else:
                after = min(after, ack_wait - elapsed)
        found.sort()
        if found:
            self.again(found)
            # They keep their distances, so that they come again in the same order once more.
            moved = now - self.pending[found[0]].time
            for sequence in found:
                self.pending[sequence].time += moved
        return found, after

    def watch(self, nanoseconds: int) -> None:
        """Look after so long, whatever was planned before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(0.0, nanoseconds / SECOND), self._due)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        # The handle stays: the server, too, knows a timer that has fired as one that runs.
        self._look()
