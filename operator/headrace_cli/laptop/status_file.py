"""The state of `headrace up` as one JSON file, for scripts, tests and the demo: each change replaces it whole."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace.core.errors import Misconfigured
from headrace.io.process import log

# Under load the status changes a thousand times a second.
INTERVAL_SECONDS = 0.05

_log = log.get("up")


class StatusFile:
    """Writes the result of `collect` soon after each `touch`."""

    def __init__(self, path: Path | None, collect: Callable[[], Mapping[str, Any]]) -> None:
        self._path = path
        self._collect = collect
        self._changed = asyncio.Event()

    def touch(self) -> None:
        """Note that the status has changed."""
        self._changed.set()

    def write(self) -> None:
        """Replace the file now.

        Raises:
            Misconfigured: the file can't be written.
        """
        if self._path is None:
            return
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps(self._collect(), indent=1))
            beside.replace(self._path)
        except OSError as error:
            raise Misconfigured(
                f"--status-file {self._path} can't be written: {error}", field="--status-file"
            ) from error

    async def run(self) -> None:
        """Write after changes, until cancelled."""
        while True:
            self._changed.clear()
            try:
                self.write()
            except Misconfigured as error:
                _log.warning(str(error))
            await self._changed.wait()
            await asyncio.sleep(INTERVAL_SECONDS)
