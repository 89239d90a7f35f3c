"""The pace of refusals of events for channels that do not exist, or with tokens that are not good.

Strangers choose both, and each refusal takes a small part of the process's time from the channels that exist: most of
it, where a signature has to be verified. A sender waits for its answer, so answers beyond the pace are given late, and
a flood of such events slows itself. The event's bytes are let go before (ADR 054).
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.errors import HeadraceError, Refused

# Further refusals wait for their turn, each at most so long: nobody's answer is put off for good.
PER_SECOND = 100
LONGEST_SECONDS = 1.0
# No good token, no such channel, and not known whether there is one.
_PACED = (401, 404, 503)


class RefusalPace:
    """When the next refusal may be given."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next = 0.0

    def delay(self, error: HeadraceError) -> float:
        """How many seconds this refusal waits for; most wait for none."""
        if not isinstance(error, Refused) or error.status not in _PACED:
            return 0.0
        now = self._monotonic()
        at = max(now, self._next)
        self._next = min(at + 1 / PER_SECOND, now + LONGEST_SECONDS)
        return at - now
