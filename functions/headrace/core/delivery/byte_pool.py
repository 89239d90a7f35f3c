"""Bytes of events that all leases of a process may hold or have asked for: one connection carries them.

nats-server drops a connection for which more than 64 MiB wait to be sent, and then every lease of the process breaks at
once. So bytes that a pull asks for count until they have come or the pull has ended, and bytes that have come count
until their event is settled. Each lease has an equal share, so that one with a stuck subscriber takes nothing from
another, and each may always ask for LEAST. Pure arithmetic; called by `headrace.forward`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What a lease may ask for however much the others hold: room for a few events of common size.
LEAST = 64 * 1024


class BytePool:
    """The bytes of one process.

    Attributes:
        total: bytes for all leases, beyond which each gets LEAST only.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._shares: set[Share] = set()

    @contextmanager
    def share(self) -> Iterator[Share]:
        """The share of one more lease, for as long as that lasts."""
        share = Share(self)
        self._shares.add(share)
        try:
            yield share
        finally:
            self._shares.discard(share)

    @property
    def used(self) -> int:
        """Bytes that are held or asked for now."""
        return sum(share.held + share.asked for share in self._shares)

    @property
    def fair(self) -> int:
        """Bytes for each lease."""
        return self.total // max(1, len(self._shares))


class Share:
    """What one lease holds and has asked for.

    Attributes:
        held: bytes that have come and are not settled.
        asked: bytes that its open pull may still bring.
    """

    def __init__(self, pool: BytePool) -> None:
        self._pool = pool
        self.held = 0
        self.asked = 0

    @property
    def fair(self) -> int:
        """What the lease may have beside those that are open now."""
        return self._pool.fair

    def grant(self, wanted: int) -> int | None:
        """How many bytes a pull may ask for, at most `wanted`; None: wait until something of ours is settled."""
        free = min(self._pool.fair - self.held, self._pool.total - self._pool.used)
        if free < LEAST and self.held:
            return None
        return min(wanted, max(free, LEAST))

    def may_ask_for_any(self, largest: int) -> bool:
        """Is there room for one message of whatever size, of at most `largest` bytes as a rule?"""
        used = self._pool.used
        return used == 0 or used + largest <= self._pool.total

    def ask(self, granted: int) -> None:
        """A pull is sent."""
        self.asked = granted

    def came(self, size: int) -> None:
        """A message has come, of a pull or late."""
        self.asked = max(0, self.asked - size)
        self.held += size

    def ended(self) -> None:
        """The pull is over; what it did not bring it will not bring."""
        self.asked = 0

    def settled(self, size: int) -> None:
        self.held -= size
