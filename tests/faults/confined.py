"""A function in a memory cgroup of its own, which kills it when it takes more, as a container's does."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType

import psutil

from bench.processes import peak_rss
from tests.support.functions.functions import Function

ROOT = Path("/sys/fs/cgroup")
# The interpreter joins the group before it imports anything.
JOIN = (
    "import os, runpy; open({!r}, 'w').write(str(os.getpid())); runpy.run_module('headrace.host', run_name='__main__')"
)
MIB = 2**20

_numbers = count()


class Confined(Function):
    """One process, within so many bytes."""

    def __init__(self, target: str, nats_url: str, directory: Path, most: int, **settings: str) -> None:
        super().__init__(target, nats_url, directory, **settings)
        self._group = _made(most)
        if self._group is not None:
            self.program = ("-c", JOIN.format(str(self._group / "cgroup.procs")))

    @property
    def confined(self) -> bool:
        """Is there a cgroup? Without the right to make one, memory is only measured."""
        return self._group is not None

    def alive(self) -> bool:
        return psutil.pid_exists(self.pid) and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE

    def resident(self) -> float:
        """MiB that it holds now; 0 when it is gone."""
        return psutil.Process(self.pid).memory_info().rss / MIB if self.alive() else 0.0

    def peak(self) -> float:
        return peak_rss(self.pid) / MIB if self.alive() else 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._group is not None:
            with suppress(OSError):
                self._group.rmdir()


def _made(most: int) -> Path | None:
    """A new cgroup with this limit, of either version; None: we may not make one."""
    name = f"headrace-strangers-{os.getpid()}-{next(_numbers)}"
    for parent, limit in ((ROOT / "memory", "memory.limit_in_bytes"), (ROOT, "memory.max")):
        if not (parent / "cgroup.procs").exists():
            continue
        group = parent / name
        try:
            group.mkdir()
            (group / limit).write_text(str(most), encoding="ascii")
        except OSError:
            with suppress(OSError):
                group.rmdir()
            continue
        return group
    return None
