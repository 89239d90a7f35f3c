"""All connections of one process: how many there may be, the bytes that wait on them, and whose turn it is.

A stranger costs others little here. When there are as many connections as may be, room is made for a new one: idle
ones go first, then those that can do without their answers or whose senders let us wait, the oldest first. And a
connection that has sent more than its share waits for its next turn, of which there is one in each pass of the event
loop, for all such connections together: so a sender whose bytes are few is served at once, whatever others pile up.
When no more bytes may wait, those who have sent parts of requests, or requests ahead, go in the same order.

`headrace.server.protocol` calls it; it knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

from headrace.core.waiting import Waiting
from headrace.io.process import clock

# Requests of all functions but `receive`, whose own bound counts events: a pod's limit has room for it beside the rest.
MOST_WAITING = 32 * 1024 * 1024
MOST_CONNECTIONS = 10_000
# Room is made for several at once, since whoever is to go must be looked for among all.
SHARE = 128
# Whoever has come or gone idle just now is about to say something.
MOMENT = 1.0
# So few who hold bytes, and have just begun, are large events that are sent at once, and no flood.
FEW = 8
# After those who hold bytes were looked through, this many times as long belongs to others.
REST = 19


class Ending(StrEnum):
    """Why we have closed a connection; clients that close theirs and refusals of requests are not among them."""

    IDLE = "idle"
    """Nothing has come for as long as a connection may be idle."""
    SILENT = "silent"
    """Its client has never sent a request."""
    LATE = "late"
    """A request was not complete in time."""
    UNREAD = "unread"
    """Its client does not read the answers."""
    CROWDED = "crowded"
    """It made room for another, or came when no other could."""


class CrowdMember(Protocol):
    """A connection, as the crowd sees it."""

    def idle_since(self) -> float | None:
        """The moment when it became idle; None: it is not."""

    def waited_since(self) -> float | None:
        """The moment since when its client has let us wait for the rest of a request; None: it does not."""

    def spared_since(self) -> float | None:
        """The moment since when it has had an answer due that its client can do without; None: it has none."""

    def holds_since(self) -> float | None:
        """The moment since when it holds bytes of a request that is not whole, or whose turn it is not; None: none."""

    def make_room(self) -> None:
        """Close, at once."""


class Crowd:
    """The connections.

    Attributes:
        closed: how many we have closed, by reason.
        waiting: the bytes that wait on them, where no short way counts them.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, most_waiting: int = MOST_WAITING) -> None:
        self.most = most
        self.waiting = Waiting(most_waiting)
        self.waiting.full = self.lighten
        self.closed = dict.fromkeys(Ending, 0)
        # With what each of them counts for.
        self._members: dict[CrowdMember, int] = {}
        self._weight = 0
        self._turns: deque[Callable[[], None]] = deque()
        self._lightening = False

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: CrowdMember, loop: asyncio.AbstractEventLoop, weight: int = 1) -> bool:
        """Take a new connection in; False: there is no room, and none can be made.

        Args:
            weight: how many of the usual size it counts for.
        """
        if self._weight >= self.most and not self._make_room(loop.time()):
            self.closed[Ending.CROWDED] += 1
            return False
        self._members[member] = weight
        self._weight += weight
        return True

    def leave(self, member: CrowdMember) -> None:
        self._weight -= self._members.pop(member, 0)

    def ask_turn(self, go_on: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Have it called when all who have asked before have had their turn."""
        self._turns.append(go_on)
        if len(self._turns) == 1:
            loop.call_soon(self._give_turn, loop)

    # The room for bytes, as a short way has it.

    def hold(self, size: int, held: int) -> bool:
        return self.waiting.add(size, held)

    def let_go(self, size: int) -> None:
        self.waiting.drop(size)

    def lighten(self) -> None:
        """There is no room for more bytes: half of those who hold some of what they have not ended go, soon."""
        if not self._lightening:
            self._lightening = True
            loop = asyncio.get_running_loop()
            # Not now: whoever has asked is in the midst of counting bytes of his own.
            loop.call_soon(self._lighten, loop)

    def _lighten(self, loop: asyncio.AbstractEventLoop) -> None:
        # Of this thread: on a busy machine others' time would count, and nobody would go for long.
        began = clock.cpu()
        held = [(since, member) for member in self._members if (since := member.holds_since()) is not None]
        if len(held) <= FEW:
            held = [one for one in held if loop.time() - one[0] >= MOMENT]
        leaving = heapq.nsmallest((len(held) + 1) // 2, held, key=lambda one: one[0])
        loop.call_later(REST * (clock.cpu() - began), self._lightened)
        self._let_leave(leaving)

    def _lightened(self) -> None:
        self._lightening = False

    def _give_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        # It stays in the queue meanwhile, so that nobody else asks the loop for a call.
        go_on = self._turns[0]
        try:
            go_on()
        finally:
            self._turns.popleft()
            if self._turns:
                loop.call_soon(self._give_turn, loop)

    def _make_room(self, now: float) -> bool:
        ranks = ((rank, member) for member in self._members if (rank := _rank(member, now)) is not None)
        leaving = heapq.nsmallest(max(1, self.most // SHARE), ranks, key=lambda ranked: ranked[0])
        self._let_leave(leaving)
        return bool(leaving)

    def _let_leave(self, leaving: Sequence[tuple[object, CrowdMember]]) -> None:
        for _, member in leaving:
            self.leave(member)
            self.closed[Ending.CROWDED] += 1
            member.make_room()


def _rank(member: CrowdMember, now: float) -> tuple[int, float] | None:
    """Whoever has the least goes first; None: never."""
    if (since := member.idle_since()) is not None:
        old, new = 0, 2
    elif (since := member.waited_since()) is not None:
        old, new = 1, 3
    elif (since := member.spared_since()) is not None:
        # With newcomers, by age: a flood of requests must not have the only one go that has sent nothing yet.
        old, new = 1, 2
    else:
        return None
    return new if now - since < MOMENT else old, since
