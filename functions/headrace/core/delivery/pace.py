"""How fast a lease may ask under a rate limit. Pure; called by `headrace.forward.lease`.

Each message is paid for with time, its bits divided by the rate; nothing more is asked for until that time has passed.
"""

from __future__ import annotations

# What is pulled is delivered at once, so no more is pulled than this many seconds of it.
BURST = 0.1


class Pace:
    """The rate limit of one lease.

    Attributes:
        paid_until: when all messages so far will have been paid for, on the clock of `came`; zero without a limit.
    """

    def __init__(self, bits_per_second: float) -> None:
        """Args:
        bits_per_second: 0 is unlimited.
        """
        self._bytes_per_second = bits_per_second / 8
        self.paid_until = 0.0

    def came(self, size: int, now: float) -> None:
        """A message of so many bytes."""
        if self._bytes_per_second:
            self.paid_until = max(now, self.paid_until) + size / self._bytes_per_second

    def batch(self, wanted: int, size: int) -> int:
        """How many messages to ask for, of about so many bytes each."""
        if not self._bytes_per_second:
            return wanted
        return min(wanted, max(1, int(self._bytes_per_second * BURST / size)))
