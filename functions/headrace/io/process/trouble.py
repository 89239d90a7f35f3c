"""A trouble that may pass by itself: people hear of it after it has lasted, once for each reason.

A trouble that the next attempt mends concerns nobody: a conflict with another writer, an object that went meanwhile, an
API server that is restarted. The module knows words and a clock; its caller logs.
"""

from __future__ import annotations

from headrace.io.process import clock

LASTING_SECONDS = 5.0
# Reasons in one row of failures that people hear of; more of them say nothing new.
MOST_REASONS = 8


class Trouble:
    """The failures of one task that is tried again and again until it works."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._told: set[str] = set()

    def note(self, words: str, lasting: float = LASTING_SECONDS) -> bool:
        """Note one more failure, for this reason; True when people should hear of it now.

        Args:
            lasting: seconds for which the task must have failed before.
        """
        now = clock.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since < lasting or words in self._told or len(self._told) >= MOST_REASONS:
            return False
        self._told.add(words)
        return True

    def over(self) -> bool:
        """The task works; True when people have heard that it did not."""
        told, self._since = bool(self._told), None
        self._told.clear()
        return told
