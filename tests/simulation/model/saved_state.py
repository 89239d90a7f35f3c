"""The state of a consumer as its store has it, and as its file has it.

The store is told of every delivery and ack; the file follows it by up to a tenth of a second. After a crash the server
goes on from the file, so that a consumer may be older than its stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Pending:
    """A delivered message without its ack.

    Attributes:
        delivery: the consumer's number of its first delivery.
        time: the ack wait begins then, nanoseconds since the epoch; a NAK with a delay moves it.
    """

    delivery: int
    time: int


@dataclass
class SavedState:
    """What survives.

    Attributes:
        delivery, sequence: the last that was delivered.
        floor_delivery, floor_sequence: all up to here is acked.
        pending: by sequence.
        redelivered: how often each was delivered again.
    """

    delivery: int = 0
    sequence: int = 0
    floor_delivery: int = 0
    floor_sequence: int = 0
    pending: dict[int, Pending] = field(default_factory=dict)
    redelivered: dict[int, int] = field(default_factory=dict)

    def copy(self) -> SavedState:
        pending = {sequence: Pending(one.delivery, one.time) for sequence, one in self.pending.items()}
        numbers = self.delivery, self.sequence, self.floor_delivery, self.floor_sequence
        return SavedState(*numbers, pending, dict(self.redelivered))

    def start_at(self, sequence: int) -> None:
        """Begin behind this sequence."""
        self.sequence = self.floor_sequence = sequence

    def delivered(self, delivery: int, sequence: int, count: int, time: int, *, acks: bool, most: int) -> None:
        """A message went out for the `count`-th time.

        Args:
            acks: does the consumer ask for acks?
            most: deliveries of one message; less than one is no limit.
        """
        if delivery <= self.floor_delivery:
            return
        if not acks:
            self.delivery = self.floor_delivery = max(self.delivery, delivery)
            self.sequence = self.floor_sequence = max(self.sequence, sequence)
            return
        if sequence <= self.sequence:
            if sequence in self.pending:
                self.pending[sequence].time = time
        else:
            self.pending[sequence] = Pending(delivery, time)
        self.delivery = max(self.delivery, delivery)
        self.sequence = max(self.sequence, sequence)
        if count > 1:
            if 0 < most < count:
                self.pending.pop(sequence, None)
            self.redelivered[sequence] = max(self.redelivered.get(sequence, 0), count - 1)

    def acked(self, delivery: int, sequence: int) -> None:
        """A message is settled; the floor moves as far as all below it is."""
        self.redelivered.pop(sequence, None)
        if delivery <= self.floor_delivery or sequence not in self.pending:
            return
        first = self.pending.pop(sequence).delivery
        delivery = min(delivery, first) if first > 0 else delivery
        if not self.pending:
            self.floor_delivery, self.floor_sequence = self.delivery, self.sequence
        elif delivery == self.floor_delivery + 1:
            self.floor_delivery, self.floor_sequence = delivery, sequence
            later = [one for one in self.pending if one > sequence]
            if self.delivery > delivery and later and self.pending[min(later)].delivery > 0:
                self.floor_delivery = self.pending[min(later)].delivery - 1
                self.floor_sequence = min(later) - 1

    def replace(self, other: SavedState) -> bool:
        """Take over a whole state, as after a purge; one that is older than ours is ignored."""
        if other.delivery < self.delivery or other.floor_sequence < self.floor_sequence:
            return False
        if other.floor_delivery > other.delivery or other.floor_sequence > other.sequence:
            return False
        if any(not other.floor_sequence < one <= other.sequence for one in other.pending):
            return False
        found = other.copy()
        self.__dict__.update(found.__dict__)
        return True
