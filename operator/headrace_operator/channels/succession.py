"""Which `reconcile` counts while one is being replaced by another, and whether its settings are other ones than before.

The answers of an old process beside those of a new one would have the children made back and forth, and might be the
last word. So of two processes with different settings the one that was started later counts, for as long as it is heard
of. This module knows answers and a clock; it is called by `headrace_operator.channels.one_channel`.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.channel.hook import Installation
from headrace.core.errors import Unavailable
from headrace.io.process import clock

# After so long a silence the later process is gone: its rollout was given up, and the old processes go on.
SILENT_SECONDS = 30.0


class OutdatedAnswer(Unavailable):
    """The `reconcile` that has answered is being replaced by another, and that one is to be asked."""

    def __init__(self) -> None:
        super().__init__("a reconcile has answered that is being replaced by one with other settings")


class Succession:
    """The succession of the processes that answer for one `reconcile`.

    Attributes:
        listeners: called when the settings that count are no longer the same.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []
        self._known: Installation | None = None
        self._heard = 0.0

    def hear(self, told: Installation) -> None:
        """Take note of the process that has answered just now.

        Raises:
            OutdatedAnswer: its answer does not count.
        """
        now, known = clock.monotonic(), self._known
        if known is None or known.digest == told.digest:
            self._known = told if known is None or told.since > known.since else known
            self._heard = now
            return
        if told.since < known.since and now <= self._heard + SILENT_SECONDS:
            raise OutdatedAnswer
        self._known, self._heard = told, now
        for listener in self.listeners:
            listener()

    def check(self, told: Installation) -> None:
        """Raise as `hear` unless an earlier answer still counts."""
        if self._known is not None and self._known.digest != told.digest:
            raise OutdatedAnswer
