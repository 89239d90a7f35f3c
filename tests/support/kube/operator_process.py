"""The operator as it is deployed: a `python -m headrace_operator` process, with a kubeconfig in place of a pod."""

from __future__ import annotations

import os
import re
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from tests.support.functions.functions import LEFT_OUT, TOKEN
from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running
from tests.support.waiting import until


class OperatorProcess:
    """One process; use it as a context manager, or `start` and `stop` it."""

    def __init__(self, kubeconfig: Path, nats_url: str, hook: str, directory: Path, **settings: str) -> None:
        """Args:
        hook: base URL of `reconcile`.
        settings: further environment variables.
        """
        self.port = free_port()
        self._directory = directory
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith((*LEFT_OUT, "KUBERNETES_"))},
            "KUBECONFIG": str(kubeconfig),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "NATS_URL": nats_url,
            "HEADRACE_TOKEN": TOKEN,
            "HOOK_URL": hook,
            "LOG_LEVEL": "debug",
            **settings,
        }
        self._process: Running | None = None

    def start(self) -> OperatorProcess:
        command = [sys.executable, "-m", "headrace_operator"]
        self._process = Running("operator", command, self.port, self._directory, self._environment, inherit=False)
        return self

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def log(self) -> str:
        return self._running.log

    def terminate(self) -> None:
        """SIGTERM, as Kubernetes sends it."""
        self._running.terminate()

    def wait(self, seconds: float = 60.0) -> int:
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

    async def ready(self) -> None:
        """Wait until its watches are up."""
        await until("the operator is ready", lambda: self.probe("/readyz") == 200, 60.0)

    async def leads(self) -> None:
        """Wait until it is the one that works."""
        await until("the operator leads", lambda: self.number("headrace_operator_leads") == 1.0, 60.0)

    def probe(self, path: str) -> int:
        """The status of one of its probes; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def number(self, name: str) -> float | None:
        """One of its metrics that has no labels; None when it can't be had."""
        found = re.search(rf"^{name} (\S+)$", self.metrics, re.MULTILINE)
        return float(found[1]) if found else None

    @property
    def metrics(self) -> str:
        """All of them; empty when they can't be had."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
        except OSError:
            return ""
        return text

    def __enter__(self) -> OperatorProcess:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _running(self) -> Running:
        assert self._process is not None, "the operator was not started"
        return self._process
