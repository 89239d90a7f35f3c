"""For all tests: no property is timed. A busy machine once failed one that took 381 ms, and 17 ms when asked again."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
