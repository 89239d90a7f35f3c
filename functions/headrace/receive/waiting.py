"""How many bytes of events are on their way through this process, and how many there may be.

Bytes count from the moment they are here until their answer is given, so that neither slow clients nor a slow NATS pile
them up. Called by both ways of `receive`, and by the server for what has begun to come.
"""

from __future__ import annotations

# What an event that waits takes beside its own bytes, task and request included (measured: 2.6 KiB the short way, up to
# 8.7 KiB the long one): without it a flood of tiny events would be held by the million.
BESIDE_BYTES = 8 * 1024


class Waiting:
    """The bytes that wait.

    Attributes:
        size: how many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0

    def add(self, size: int, held: int = 0) -> bool:
        """Count so many more, if there is room, and say whether there is. Whoever waits alone may be of any size.

        Args:
            held: what is counted of the same event already.
        """
        if self.size > held and self.size + size > self._most:
            return False
        self.size += size
        return True

    def drop(self, size: int) -> None:
        self.size -= size
