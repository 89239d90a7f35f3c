"""A function as it is deployed: a `python -m headrace.host` process on a free loopback port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

TOKEN = "the-shared-token"

START_SECONDS = 20.0
# A lease's whole length, and then some.
STOP_SECONDS = 35.0


class Function:
    """One process; use it as a context manager, or `start` and `stop` it.

    Attributes:
        settings: further environment variables.
        log: where its output goes, appended over restarts.
    """

    def __init__(self, target: str, nats_url: str, directory: Path, **settings: str) -> None:
        self.target = target
        self.port = free_port()
        self.log = directory / f"{target}-{self.port}.log"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("NATS_", "HEADRACE_"))},
            "FUNCTION_TARGET": target,
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "NATS_URL": nats_url,
            "HEADRACE_TOKEN": TOKEN,
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, ready: bool = True) -> Function:
        """Start it and wait until it is ready, or only alive when NATS is away."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.host"], env=self._environment, stdout=log, stderr=log
            )
        probe = "/health/readiness" if ready else "/health/liveness"
        deadline = time.monotonic() + START_SECONDS
        while not self._answers(probe):
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                state = f"ended with {ended}" if ended is not None else f"does not answer {probe}"
                self.stop()
                raise AssertionError(f"{self.target} {state}; its log ends:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        return self

    def terminate(self) -> None:
        """SIGTERM, as Kubernetes sends it; `wait` for the end."""
        self._running.terminate()

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Its exit status."""
        return self._running.wait(timeout)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """End it, however; for clean-up."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(2)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self) -> Function:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.target} was not started"
        return self._process

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
