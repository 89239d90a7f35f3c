"""A function as it is deployed: a `python -m headrace.host` process on a loopback port that it keeps over restarts."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import TracebackType

from tests.support.nats.nats_server import free_port
from tests.support.programs.process import LOOPBACK, STOP_SECONDS, Running

TOKEN = "the-shared-token"

# What may be set around the tests; without byte code each start would compile everything again, for a second.
LEFT_OUT = ("NATS_", "HEADRACE_", "PYTHONDONTWRITEBYTECODE")


class Function:
    """One process; use it as a context manager, or `start` and `stop` it. Blocking methods.

    Attributes:
        program: what Python runs.
        site: where it runs.
    """

    program: tuple[str, str] = ("-m", "headrace.host")
    site = LOOPBACK

    def __init__(self, target: str, nats_url: str, directory: Path, *, ready: bool = True, **settings: str) -> None:
        """Args:
        ready: wait at the start until it is ready; not when its NATS is away on purpose.
        settings: further environment variables.
        """
        self.target = target
        self.port = free_port()
        self._directory = directory
        self._ready = ready
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)},
            "FUNCTION_TARGET": target,
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "NATS_URL": nats_url,
            "HEADRACE_TOKEN": TOKEN,
            # What is bounded or remembered is so in each worker; tests of several say how many.
            **settings,
        }
        self._process: Running | None = None

    @property
    def url(self) -> str:
        return f"http://{self.site.address}:{self.port}"

    @property
    def metrics(self) -> int:
        """The port on which it tells of itself; of one that was given a METRICS_PORT."""
        return int(self._environment["METRICS_PORT"])

    def start(self) -> Function:
        command = [sys.executable, *self.program]
        self._process = Running(
            self.target, command, self.port, self._directory, self._environment, inherit=False, site=self.site
        )
        self._process.wait_until_ready() if self._ready else self._process.wait_until_open()
        return self

    @property
    def pid(self) -> int:
        return self._running.pid

    def terminate(self) -> None:
        """SIGTERM, as Kubernetes sends it; `wait` for the end."""
        self._running.terminate()

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Its exit status, once it has ended by itself."""
        return self._running.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        os.kill(self._running.pid, signal.SIGKILL)
        self._running.wait()

    def stop(self) -> None:
        """End it, however; for clean-up."""
        if self._process is not None:
            self._process.stop()

    @property
    def log(self) -> str:
        return self._running.log

    def __enter__(self) -> Function:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _running(self) -> Running:
        assert self._process is not None, f"{self.target} was not started"
        return self._process
