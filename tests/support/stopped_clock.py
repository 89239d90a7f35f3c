"""Headrace's clock, stopped: a test says what time it is."""

from __future__ import annotations

import pytest

from headrace.io.process import clock


class StoppedClock:
    """`clock.monotonic` of this process gives `now`, until the test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now: float = 0.0) -> None:
        self.now = now
        monkeypatch.setattr(clock, "monotonic", lambda: self.now)
