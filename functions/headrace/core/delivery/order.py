"""Which message of a by-key consumer may go to its subscriber now, and which has to wait.

The rule: of all messages of one key that are not settled, the one with the lowest sequence goes, alone. Pure: times are
seconds since the epoch that the caller reads. Knows nothing of NATS or HTTP. One `Order` lives as long as one lease,
and `headrace.forward.line` carries its answers out (ADR 015).

                       ┌──────────── Wait ────────────┐
    arrived ──▶ Go     │ held in memory, few of them  │──▶ Go | Postpone
                └──────┴──▶ Postpone: given back until its turn may have come
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from typing import NamedTuple

# Seconds. A message that has to wait less than this waits in memory: giving it back and storing a record costs more.
NEAR = 5.0
# A message that waits for an earlier one of its key is due this much later: the earlier one has to come back first.
BEHIND = 0.05
# Messages that wait for the same moment come back this far apart, in their order, and not all at once.
PACE = 0.001
# How long a message is given back when it finds no room in memory while a subscriber has earlier ones in hand. Below
# NEAR, or every later message of the key would have to be given back as well.
CROWDED = 4.0


@dataclass(frozen=True, slots=True)
class Go:
    """The message may go now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The message is kept here until a later verdict."""


@dataclass(frozen=True, slots=True)
class Postpone:
    """The message is given back until `due`."""

    due: float


@dataclass(frozen=True, slots=True)
class Twin:
    """The message is here already, and came again since the server had lost sight of it."""


class Unsettled(NamedTuple):
    """How many messages the server counts as delivered and not settled; none of them is later than `last`."""

    messages: int
    last: int


Verdict = Go | Wait | Postpone
Changes = tuple[tuple[int, Go | Postpone], ...]
"""New verdicts on messages that were waiting, by sequence."""


class _At(Enum):
    HAND = "in a subscriber's hands"
    HERE = "waiting here"
    AWAY = "given back"


@dataclass(slots=True)
class _Message:
    key: str | None
    at: _At
    due: float = 0.0
    size: int = 0


@dataclass(slots=True)
class _Line:
    """The messages of one key, by sequence: all of them, and those that wait here."""

    all: list[int] = field(default_factory=list)
    here: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Order:
    """The unsettled messages of one consumer, as far as they are known.

    Attributes:
        most_here, most_bytes: how many messages, and how many bytes of them, may wait in memory.
        open: whether all messages left unsettled before this lease are known; until then none with a key may go.
    """

    most_here: int
    most_bytes: int
    open: bool = False
    here: int = 0
    bytes_here: int = 0
    _messages: dict[int, _Message] = field(default_factory=dict)
    _lines: dict[str, _Line] = field(default_factory=dict)
    # Due times of messages that were given back: a heap, from which a message that has come again is removed later.
    _dues: list[tuple[float, int]] = field(default_factory=list)
    # The sequences, by key, of messages that were given back, are due, and have not come again.
    _overdue: dict[str | None, set[int]] = field(default_factory=dict)

    @property
    def ahead(self) -> int:
        """How many more messages to pull without knowing whether they may go at once.

        They may fill half of the room; the other half is kept for messages that come again. Zero until a fifth of that
        half is free, so that pulls are few.
        """
        if not self.here:
            return max(1, self.most_here // 2)
        free = self.most_here // 2 - self.here
        if self.bytes_here:
            free = min(free, (self.most_bytes // 2 - self.bytes_here) * self.here // self.bytes_here)
        return free if 4 * free >= self.here else 0

    def returning(self, now: float) -> int:
        """How many messages that were given back are due and first of their key: worth a pull in any case."""
        while self._dues and self._dues[0][0] <= now:
            due, sequence = heappop(self._dues)
            message = self._messages.get(sequence)
            if message is not None and message.at is _At.AWAY and message.due == due:
                self._overdue.setdefault(message.key, set()).add(sequence)
        return sum(self._leading(key, due) for key, due in self._overdue.items())

    @property
    def next_due(self) -> float | None:
        """The earliest moment at which another given-back message may become due; None when there is none."""
        return self._dues[0][0] if self._dues else None

    @property
    def crowded(self) -> bool:
        """Is at most a quarter of the room left for messages that wait here?"""
        return 4 * self.here >= 3 * self.most_here or (self.here > 0 and 4 * self.bytes_here >= 3 * self.most_bytes)

    def arrived(self, sequence: int, key: str | None, size: int, now: float) -> Verdict | Twin:
        """Take in a message that was pulled; one without a key may always go."""
        known = self._messages.get(sequence)
        if known is not None and known.at is not _At.AWAY:
            return Twin()
        message = self._put(sequence, _Message(key, _At.HAND, size=size))
        if key is None:
            return Go()
        verdict = self._verdict(sequence, message, now)
        if isinstance(verdict, Wait) and not self._room(size):
            front = self._messages[self._lines[key].all[0]]
            after = front.due if front.at is _At.AWAY else now
            verdict = Postpone(self._behind(sequence, key, max(after, now + CROWDED)))
        if isinstance(verdict, Wait):
            message.at = _At.HERE
            self.here += 1
            self.bytes_here += size
            insort(self._lines[key].here, sequence)
        else:
            self._leave(sequence, message, verdict)
        return verdict

    def settled(self, sequence: int, now: float) -> Changes:
        """A message was delivered, parked or dead-lettered: the next of its key may go."""
        key = self._drop(sequence)
        return () if key is None else self._look(key, now)

    def away(self, sequence: int, due: float, now: float) -> Changes:
        """A message will come again, at `due` at the earliest; those behind it wait."""
        message = self._messages[sequence]
        self._give_back(sequence, message, due)
        return () if message.key is None else self._look(message.key, now)

    def expect(self, sequence: int, key: str | None, due: float) -> None:
        """A stage record says that a message will come, at `due` at the earliest."""
        if sequence not in self._messages:
            self._give_back(sequence, self._put(sequence, _Message(key, _At.AWAY)), due)

    def known(self) -> frozenset[int]:
        """The sequences of all messages known to be unsettled."""
        return frozenset(self._messages)

    def missing(self, unsettled: Unsettled, asked: frozenset[int]) -> int:
        """How many of the messages that the server counts as unsettled are unaccounted for.

        Args:
            asked: `known()` when the server was asked. Messages that arrived or were settled in the meantime may or may
                not be in its count, so neither kind may make up for one that is missing. Nor may one that the server
                does not know to be delivered: it was killed, and came back with an older state. One that is here all
                the same waits until the server has come as far again.
        """
        still = asked & self._messages.keys()
        counted = sum(sequence <= unsettled.last for sequence in still)
        ahead = sum(sequence > unsettled.last and self._messages[sequence].at is not _At.AWAY for sequence in still)
        return max(0, unsettled.messages - counted) + ahead

    def opened(self, now: float) -> Changes:
        """All messages left unsettled before are known, or were waited for long enough."""
        self.open = True
        return tuple(change for key in list(self._lines) for change in self._look(key, now))

    def _drop(self, sequence: int) -> str | None:
        """Forget a message; gives its key."""
        key = self._messages.pop(sequence).key
        self._came(sequence, key)
        if key is not None:
            line = self._lines[key]
            del line.all[bisect_left(line.all, sequence)]
            if not line.all:
                del self._lines[key]
        return key

    def _put(self, sequence: int, message: _Message) -> _Message:
        known = self._messages.get(sequence)
        if known is not None and known.key != message.key:
            # A server that has lost power gives a sequence twice: the event that had it before is no more.
            self._drop(sequence)
        if sequence not in self._messages and message.key is not None:
            insort(self._lines.setdefault(message.key, _Line()).all, sequence)
        self._messages[sequence] = message
        self._came(sequence, message.key)
        return message

    def _give_back(self, sequence: int, message: _Message, due: float) -> None:
        message.at, message.due = _At.AWAY, due
        heappush(self._dues, (due, sequence))

    def _came(self, sequence: int, key: str | None) -> None:
        if (overdue := self._overdue.get(key)) is not None:
            overdue.discard(sequence)
            if not overdue:
                del self._overdue[key]

    def _leading(self, key: str | None, overdue: set[int]) -> int:
        return len(overdue) if key is None else int(self._lines[key].all[0] in overdue)

    def _verdict(self, sequence: int, message: _Message, now: float) -> Verdict:
        if message.key is None:
            return Go()
        first = self._lines[message.key].all[0]
        if not self.open:
            return Wait()
        if first == sequence:
            return Go()
        front = self._messages[first]
        if front.at is _At.AWAY and front.due - now > NEAR:
            return Postpone(self._behind(sequence, message.key, front.due))
        return Wait()

    def _look(self, key: str, now: float) -> Changes:
        """The new verdicts on the messages of a key that wait here."""
        line = self._lines.get(key)
        return () if line is None else tuple(self._changes(line, now))

    def _changes(self, line: _Line, now: float) -> Iterator[tuple[int, Go | Postpone]]:
        for sequence in tuple(line.here):
            message = self._messages[sequence]
            verdict = self._verdict(sequence, message, now)
            if not isinstance(verdict, Wait):
                line.here.remove(sequence)
                self.here -= 1
                self.bytes_here -= message.size
                self._leave(sequence, message, verdict)
                yield sequence, verdict

    def _leave(self, sequence: int, message: _Message, verdict: Go | Postpone) -> None:
        match verdict:
            case Go():
                message.at = _At.HAND
            case Postpone(due):
                self._give_back(sequence, message, due)

    def _behind(self, sequence: int, key: str, due: float) -> float:
        rank = bisect_left(self._lines[key].all, sequence)
        return round(due + BEHIND + rank * PACE, 3)

    def _room(self, size: int) -> bool:
        # A message alone always finds room, or a large one would never have its turn.
        return self.here == 0 or (self.here < self.most_here and self.bytes_here + size <= self.most_bytes)
