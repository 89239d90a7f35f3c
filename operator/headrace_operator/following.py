"""Notices that a mounted ConfigMap of NATS was edited: what it names may have to be mounted into many pods.

The kubelet swaps the files of each pod when it comes to it, so the hook may see an edit a minute after we do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import Misconfigured
from headrace.io.nats_config import mounted

LOOK_SECONDS = 5.0
LATE_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Following:
    """Looks at one directory.

    Attributes:
        tell: called after an edit, and once more when all pods have seen it.
    """

    directory: str
    tell: Callable[[], None]
    look_seconds: float = LOOK_SECONDS
    late_seconds: float = LATE_SECONDS

    async def run(self) -> None:
        """Never returns."""
        loop, known, late = asyncio.get_running_loop(), self._texts(), float("inf")
        while True:
            await asyncio.sleep(self.look_seconds)
            found = self._texts()
            if found is not None and found != known:
                known, late = found, loop.time() + self.late_seconds
                self.tell()
            elif loop.time() >= late:
                late = float("inf")
                self.tell()

    def _texts(self) -> dict[str, str] | None:
        """None for what can't be read, of which the client tells."""
        try:
            return mounted(self.directory)
        except Misconfigured:
            return None
