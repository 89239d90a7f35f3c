"""Whether a worker still gives signs of life, judged by a parent that may be held up itself.

Knows seconds; does not know processes, pipes or clocks. Called by `headrace.server.workers`.
"""

from __future__ import annotations

# How often a worker gives a sign, and how often the parent looks.
BEAT_SECONDS = 2.0
LOOK_SECONDS = 5.0
# Many times what the largest event, or its share of a crowded machine, holds up the loop of a worker that serves.
SILENT_SECONDS = 30.0


class Pulse:
    """The signs of one worker."""

    def __init__(self, now: float) -> None:
        """Args:
        now: of a clock that stands still while the machine sleeps, in seconds.
        """
        self._heard = self._looked = now

    def stopped(self, now: float, *, heard: bool) -> bool:
        """Has it been silent for too long?

        Args:
            heard: a sign has come since the last call.
        """
        # Whoever looks this late was stopped or starved himself, as when a whole group is frozen: so may the worker
        # have been, and it gets all its time anew.
        if heard or now - self._looked > 2 * LOOK_SECONDS:
            self._heard = now
        self._looked = now
        return now - self._heard > SILENT_SECONDS
