"""The messages of one stream: stored, found, counted and deleted, as the server's file store does.

It knows no limits, no consumers and no wire.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.simulation.model.subjects import has_wildcard, matches


class Stored(NamedTuple):
    """One message as it lies in a stream; `time` in nanoseconds since the epoch."""

    subject: str
    headers: bytes
    data: bytes
    time: int


class Messages:
    """Messages by sequence.

    Attributes:
        first, last: sequences; of an empty one, `first` is the next sequence but for one that never held a message.
        size: bytes, as the server counts.
    """

    def __init__(self, in_memory: bool = False) -> None:
        self.by_sequence: dict[int, Stored] = {}
        self.first = 0
        self.last = 0
        self.size = 0
        self._sequences: list[int] = []
        self._by_subject: dict[str, list[int]] = {}
        self._in_memory = in_memory

    def __len__(self) -> int:
        return len(self.by_sequence)

    def cost(self, subject: str, headers: bytes, data: bytes) -> int:
        """The bytes that a message takes."""
        length = len(subject.encode("utf-8", "surrogateescape")) + len(headers) + len(data)
        if self._in_memory:
            return length + 16
        return length + (34 if headers else 30)

    def store(self, message: Stored) -> int:
        """Add it at the end; its sequence."""
        self.last += 1
        self.put(self.last, message)
        return self.last

    def put(self, sequence: int, message: Stored) -> None:
        if not self.by_sequence:
            self.first = sequence
        self.by_sequence[sequence] = message
        insort(self._sequences, sequence)
        insort(self._by_subject.setdefault(message.subject, []), sequence)
        self.size += self.cost(message.subject, message.headers, message.data)

    def remove(self, sequence: int) -> Stored:
        message = self.by_sequence.pop(sequence)
        del self._sequences[bisect_left(self._sequences, sequence)]
        same = self._by_subject[message.subject]
        del same[bisect_left(same, sequence)]
        if not same:
            del self._by_subject[message.subject]
        self.size -= self.cost(message.subject, message.headers, message.data)
        self.first = self._sequences[0] if self._sequences else self.last + 1
        return message

    def copy(self) -> Messages:
        """Another one with the same messages."""
        other = Messages(self._in_memory)
        for sequence, message in self.by_sequence.items():
            other.put(sequence, message)
        other.first, other.last = self.first, self.last
        return other

    def subjects(self, pattern: str) -> list[str]:
        """The subjects that hold messages and match, in order."""
        if not has_wildcard(pattern):
            return [pattern] if pattern in self._by_subject else []
        return sorted(subject for subject in self._by_subject if matches(pattern, subject))

    def of(self, subject: str) -> Sequence[int]:
        """The sequences of one subject."""
        return self._by_subject.get(subject, ())

    def last_of(self, subject: str) -> int:
        """The newest sequence of a subject or pattern; 0 without one."""
        return max((self._by_subject[one][-1] for one in self.subjects(subject)), default=0)

    def count(self, filters: Sequence[str], start: int) -> int:
        """How many messages from a sequence on match one of the filters; none are all."""
        return sum(len(found) - bisect_left(found, start) for found in self._matching(filters))

    def next(self, filters: Sequence[str], start: int) -> int:
        """The first sequence from `start` on that matches one of the filters; 0 without one."""
        found = ((one, bisect_left(one, start)) for one in self._matching(filters))
        return min((one[at] for one, at in found if at < len(one)), default=0)

    def since(self, moment: int) -> int:
        """The first sequence that was stored at this time or later; beyond the last without one."""
        return next((one for one in self._sequences if self.by_sequence[one].time >= moment), self.last + 1)

    def selected(self, filters: Sequence[str]) -> list[int]:
        """All sequences that match, in order."""
        return sorted(sequence for found in self._matching(filters) for sequence in found)

    def _matching(self, filters: Sequence[str]) -> Iterator[list[int]]:
        if not filters:
            yield self._sequences
            return
        seen: set[str] = set()
        for pattern in filters:
            for subject in self.subjects(pattern):
                if subject not in seen:
                    seen.add(subject)
                    yield self._by_subject[subject]
