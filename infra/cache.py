"""A cache outside the repository for things made once per machine: one maker at a time, which tells how far it is.

It uses the standard library only. The programs that tests build are in it, and the image.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; says so when another run holds it, and waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run, which holds {path.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def say(words: str) -> None:
    """Progress, for a person."""
    print(words, file=sys.stderr, flush=True)
