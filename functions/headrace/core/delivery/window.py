"""How many messages a lease may ask for: bounded by count and by bytes.

Pure arithmetic, called by `headrace.forward` whenever no pull is open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# What the server counts of a message beside headers and data: its subject and the ack subject, of at most 4 KiB each.
ENVELOPE = 8 * 1024


@dataclass(frozen=True, slots=True)
class Room:
    """One pull request that fits; zero bytes are no limit."""

    batch: int
    max_bytes: int


# For a message in the stream that is larger than any that the server would accept today.
ANY_SIZE = Room(1, 0)


@dataclass(frozen=True, slots=True)
class Window:
    """The limits of a lease.

    Attributes:
        slots: events that may be in the subscriber's hands at once.
        budget: bytes of all events that the lease holds.
        largest: bytes of the largest message that the server takes, its envelope included; a pull with less could never
            be served.
        ahead: events that may wait in memory until a slot is free.
    """

    slots: int
    budget: int
    largest: int
    ahead: int = 0

    @property
    def most(self) -> int:
        """The events that the lease may hold."""
        return self.slots + self.ahead

    @property
    def crowded(self) -> int:
        """With more events than this, a patient lease waits."""
        return self.most - max(1, self.most // 4)

    def within(self, budget: int) -> Window:
        """The same with fewer bytes, if those are fewer."""
        return replace(self, budget=min(self.budget, budget))

    def room(self, held: int, held_bytes: int, *, patient: bool) -> Room | None:
        """The pull that may be sent now, or None when it is better to wait.

        Args:
            held, held_bytes: events, and bytes of them, in hand or waiting.
            patient: wait until a quarter of them may come, so that a fast subscriber costs one pull per many
                events. The lease loses patience after a moment, or fresh events would wait behind a few hanging ones.
        """
        batch = self.most - held
        if batch <= 0 or (patient and held > 0 and held > self.crowded):
            return None
        free = self.budget - held_bytes
        if free >= self.largest:
            return Room(batch, free)
        # Alone in the window even the largest message may come, or it would never be delivered.
        return Room(1, self.largest) if held == 0 else None
