"""Notices an edit of what `reconcile` reads beside the channels, since it may change the children of all of them.

`reconcile` reads the ConfigMap of NATS, which names the files that are mounted into many pods, the defaults of
channels, and the shared token, of which functions know a digest. The kubelet swaps the files of each pod when it comes
to it, so the hook may see an edit a minute after we do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import Misconfigured

LOOK_SECONDS = 5.0
LATE_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class EditWatch:
    """Looks at one thing that can be edited.

    Attributes:
        read: gives the thing as it is; raises Misconfigured when it can't be read, which somebody else reports.
        tell: called after an edit, and once more when all pods have seen it.
    """

    read: Callable[[], object]
    tell: Callable[[], None]
    look_seconds: float = LOOK_SECONDS
    late_seconds: float = LATE_SECONDS

    async def run(self) -> None:
        """Never returns."""
        loop, known, late = asyncio.get_running_loop(), self._read(), float("inf")
        while True:
            await asyncio.sleep(self.look_seconds)
            found = self._read()
            if found is not None and found != known:
                known, late = found, loop.time() + self.late_seconds
                self.tell()
            elif loop.time() >= late:
                late = float("inf")
                self.tell()

    def _read(self) -> object:
        """The thing as it is; None when it can't be read."""
        try:
            return self.read()
        except Misconfigured:
            return None
