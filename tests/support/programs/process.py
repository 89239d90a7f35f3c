"""A child process that serves on one port, of loopback mostly: started, waited for, stopped.

Used by the host tests and by the bench. Its output goes to a file; a process that does not come up is reported with
the end of it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

START_SECONDS = 90
STOP_SECONDS = 35  # a lease of 25 s at most, and then some


class Site(NamedTuple):
    """Where a process runs: on loopback, if nothing is said.

    Attributes:
        address: on which it listens.
        within: words before its command, which take it into a name space.
    """

    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()


LOOPBACK = Site()


class DidNotStart(Exception):
    """A process ended, or was not ready in time; carries the end of its log."""


class Running:
    """A child process on one port."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        port: int,
        directory: Path,
        environment: Mapping[str, str],
        *,
        inherit: bool = True,
        site: Site = LOOPBACK,
    ) -> None:
        """Start it.

        Args:
            directory: where it works, and where its log goes.
            environment: added to our own, or all that it gets unless `inherit`.
        """
        self.name = name
        self.port = port
        self._address = site.address
        self._log = directory / f"{name}-{port}.log"
        surrounding = os.environ if inherit else {}
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [*site.within, *command], cwd=directory, env={**surrounding, **environment}, stdout=log, stderr=log
            )

    @property
    def url(self) -> str:
        return f"http://{self._address}:{self.port}"

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_until_open(self) -> Running:
        """Wait for the port; for processes that answer as soon as they listen."""
        return self._wait(self._open)

    def wait_until_ready(self) -> Running:
        """Wait for 200 from the readiness probe."""
        return self._wait(self.is_ready)

    def terminate(self) -> None:
        """Send SIGTERM, and don't wait."""
        self._child.terminate()

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """The exit status, once it has ended by itself.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        return self._child.wait(seconds)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that doesn't help."""
        self._child.terminate()
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._child.kill()
        self._child.wait()

    def _wait(self, arrived: Callable[[], bool]) -> Running:
        deadline = time.monotonic() + START_SECONDS
        while not arrived():
            status = self._child.poll()
            if status is not None or time.monotonic() > deadline:
                self.stop()
                fate = f"is not ready after {START_SECONDS} s" if status is None else f"ended with {status}"
                raise DidNotStart(f"{self.name} {fate}; its log ends:\n{self.log[-2000:]}")
            time.sleep(0.02)
        return self

    def _open(self) -> bool:
        try:
            socket.create_connection((self._address, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def is_ready(self) -> bool:
        """Does the readiness probe answer 200?"""
        try:
            with urllib.request.urlopen(f"{self.url}/health/readiness", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
