"""A trouble that may pass by itself: people are told of it once it has lasted, once for each reason.

What the next attempt mends is nobody's business: a conflict with another writer, an object that went meanwhile, an API
server that is restarted. It knows words and a clock; its caller logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LASTING_SECONDS = 5.0
# Of a row of failures; more reasons than that say nothing more.
MOST_REASONS = 8


class Trouble:
    """Of one thing that is tried again and again until it works."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: float | None = None
        self._told: set[str] = set()

    def note(self, words: str, lasting: float = LASTING_SECONDS) -> bool:
        """It has failed once more, for this reason; True when people should be told now.

        Args:
            lasting: seconds that it must have failed for.
        """
        now = self._monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since < lasting or words in self._told or len(self._told) >= MOST_REASONS:
            return False
        self._told.add(words)
        return True

    def over(self) -> bool:
        """It works; True when people were told that it does not."""
        told, self._since = bool(self._told), None
        self._told.clear()
        return told
