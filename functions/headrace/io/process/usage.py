"""CPU time, memory and age of this process, as far as the system tells."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

from headrace.io.process import clock

_STAT, _STATM = Path("/proc/self/stat"), Path("/proc/self/statm")


@cache
def began() -> float:
    """The start of the process on the monotonic clock; where the system does not tell, the moment of the first call.

    Processes that are forked after the first call share its value.
    """
    now = clock.monotonic()
    try:
        # The 20th field after the program's name, which may hold blanks and brackets; in ticks since the boot.
        ticks = int(_STAT.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19])
        return now - max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return now


def age() -> float:
    """Seconds since `began`."""
    return clock.monotonic() - began()


def cpu_seconds() -> float:
    """CPU time so far, user and system."""
    times = os.times()
    return times.user + times.system


def resident_bytes() -> int | None:
    """Resident memory; None where the system does not tell."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
