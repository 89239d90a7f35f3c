"""How many CPUs this process is given: by the limit of its control group, else those that it may run on.

Linux only; elsewhere there is no limit to read. Called once at the start, by `headrace.host.serving`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

UNLIMITED = 4


def cpus(root: Path = Path("/")) -> int:
    """At least 1. A part of a CPU counts as one: whoever is given 1.5 can use 2 for some of the time.

    Without a limit at most UNLIMITED, or a pod of a large node would start with a process for each of its CPUs.

    Args:
        root: where /proc and /sys are.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [math.ceil(limit) for limit in _limits(root)] or [UNLIMITED]
    return max(1, min(allowed, *limits))


def _limits(root: Path) -> Iterator[float]:
    """The limits of the groups that we are in, and of those around them, as far as they can be seen from here."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        # In a container the path may be the one outside: then only the last, which is `/`, is there.
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            inside = str(group).lstrip("/")
            if not controllers:
                yield from _quota(*_words(root / "sys/fs/cgroup" / inside / "cpu.max"))
            elif "cpu" in controllers.split(","):
                folder = root / "sys/fs/cgroup/cpu" / inside
                yield from _quota(*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us"))


def _quota(quota: str = "", period: str = "", *_: str) -> Iterator[float]:
    # `max` in version 2, and -1 in version 1, are no limit.
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        yield int(quota) / int(period)


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
