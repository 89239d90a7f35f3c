"""The watch over a nats-server that may find the disk full: people are told, and the server is started again later.

A stream whose write has failed refuses every event until its server starts anew (nats-server 2.15.1, measured). The
server says so in its log alone. `headrace_cli.laptop.up` watches the server that it has started itself.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headrace.io.process import log

LOOK_SECONDS = 2.0
# A start cuts off requests in flight; where it does not help, as under a quota, the next must not follow at once.
BETWEEN_STARTS = 60.0
# A few blocks of a stream's file store (8 MiB each).
ENOUGH_MIB = 64
FULL = b"no space left on device"

_log = log.get("up")


class FullDisk:
    """Watches the log of one server.

    Args:
        server_log: the server's log, read from its end on.
        free: bytes that are free now.
        restart: starts the server again; its argument is the reason.
    """

    def __init__(self, server_log: Path, free: Callable[[], int], restart: Callable[[str], None]) -> None:
        self._server_log = server_log
        self._free = free
        self._restart = restart
        self._read = server_log.stat().st_size if server_log.exists() else 0
        self._full = False
        self._not_before = float("-inf")

    def look(self, now: float) -> None:
        """Read the new lines and act on them; `now` is in seconds, by any clock that never goes back."""
        if FULL in self._news() and not self._full:
            self._full = True
            words = "the disk is full and events are refused with 503: make room, then nats-server is started again"
            _log.error(words, free_mib_needed=ENOUGH_MIB, told_by=str(self._server_log))
        if self._full and now >= self._not_before and self._free() >= ENOUGH_MIB << 20:
            self._full = False
            self._not_before = now + BETWEEN_STARTS
            self._restart("there is room on the disk again")

    def _news(self) -> bytes:
        with self._server_log.open("rb") as file:
            file.seek(self._read)
            news = file.read()
        self._read += len(news)
        return news


async def watch(server_log: Path, restart: Callable[[str], None]) -> None:
    """Look every few seconds, until cancelled."""
    disk = FullDisk(server_log, lambda: shutil.disk_usage(server_log.parent).free, restart)
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(OSError):
            disk.look(time.monotonic())
