"""The clocks of this process, but for the event loop's own, by which waits and deadlines go.

Whoever needs another time asks here, at the moment when it is needed. These are attributes of this module, so that one
place decides what time it is for all of Headrace: a simulation sets them, and the loop's clock as well, to its own.
Values and stories of `headrace.core` and beside `headrace.io` get a clock as an argument.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

monotonic = time.monotonic
"""Seconds that only go forward."""
wall = time.time
"""Seconds since the epoch."""
cpu = time.thread_time
"""Seconds that this thread has computed."""


def now() -> datetime:
    """`wall` as a moment in UTC."""
    return datetime.fromtimestamp(wall(), UTC)
