"""The bytes of requests on their way through this process, and their bound.

Bytes count from their arrival until their answer, so that neither slow clients nor a slow NATS pile them up. Both ways
of `receive` call it, and the server, for messages that are still arriving and for those that are not yet read.
"""

from __future__ import annotations

from collections.abc import Callable

# The memory of a waiting event beside its own bytes, task and request included (measured: 2.6 KiB on the short way, up
# to 8.7 KiB on the long one): without it a flood of tiny events would be held by the million.
BESIDE_BYTES = 8 * 1024


class Waiting:
    """The waiting bytes.

    Attributes:
        size: their number.
        full: called when there is no room for more.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0
        self.full: Callable[[], None] = lambda: None

    def add(self, size: int, held: int = 0) -> bool:
        """Count so many more; False: there is no room for them. An event that waits alone may have any size.

        Args:
            held: the bytes of the same event that are counted already.
        """
        if self.size > held and self.size + size > self._most:
            self.full()
            return False
        self.size += size
        return True

    def drop(self, size: int) -> None:
        self.size -= size
