"""A host with our functions in it, started as its users start it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tests.hosts.environments import ROOT, Environment, Kind
from tests.support.nats_server import free_port
from tests.support.process import Running


class Hosted:
    """Starts functions in one environment; each target's shared process at its first use."""

    def __init__(self, environment: Environment, nats_url: str, directory: Path) -> None:
        self.environment = environment
        self.kind = environment.kind
        self.token = secrets.token_hex(16)
        self._nats_url = nats_url
        self._directory = directory
        self._shared: dict[str, Running] = {}
        self._all: list[Running] = []

    def url(self, target: str) -> str:
        if target not in self._shared:
            self._shared[target] = self.start(target).wait_until_ready()
        return self._shared[target].url

    def start(self, target: str, **variables: str) -> Running:
        """A process of its own, which may not be ready yet; variables replace what it would get."""
        port = free_port()
        running = Running(
            target,
            self._command(target, port),
            port,
            self._directory,
            # Nothing of the test's own environment: no PYTHONPATH, no editable install.
            {
                "PATH": os.environ["PATH"],
                "HOME": str(self._directory),
                "NATS_URL": self._nats_url,
                "HEADRACE_TOKEN": self.token,
                "FUNCTION_TARGET": target,
                "LISTEN_ADDRESS": f"127.0.0.1:{port}",
                **variables,
            },
            inherit=False,
        )
        self._all.append(running)
        return running

    def stop(self) -> None:
        for running in self._all:
            running.stop()

    def _command(self, target: str, port: int) -> list[str | Path]:
        python = self.environment.python
        if self.kind is Kind.SCAFFOLD:
            return [python, self.environment.service / "service" / "main.py"]
        framework = python.with_name("functions-framework")
        source = ROOT / "functions" / "main.py"
        where = ["--host", "127.0.0.1", "--port", str(port)]
        return [framework, "--asgi", "--source", source, "--target", target, *where]
