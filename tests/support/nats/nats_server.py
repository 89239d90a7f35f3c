"""A real nats-server for tests: a process of its own, on a loopback port that it keeps over restarts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from infra.programs.nats_server import binary
from tests.support.programs.process import LOOPBACK, Site

# Two busy cores: the server is up in 50 ms when it is alone, in seconds when it is not.
START_SECONDS = 90.0
_POLL_SECONDS = 0.01


class NatsServer:
    """One nats-server with JetStream; blocking methods, all quick.

    Attributes:
        data: what survives a restart; give the same directory to a second server to take it over.
        port: of the clients, kept over restarts.
    """

    def __init__(
        self,
        directory: Path,
        *,
        config: str = "",
        port: int | None = None,
        domain: str = "",
        limits: str = "",
        store: str = "",
        site: Site = LOOPBACK,
    ) -> None:
        """Args:
        directory: for configuration, log and data; made when it does not exist.
        config: further lines of nats-server's own configuration, as `max_payload: 64KB`.
        domain: JetStream's; none, if not given.
        limits: what JetStream allows its clients, as `max_request_batch: 10`.
        store: how much it may store at all, as `max_file_store: 1MB`.
        """
        self.data = directory / "jetstream"
        self.port = port or free_port()
        self._site = site
        self._log = directory / "nats-server.log"
        self._config = directory / "nats-server.conf"
        self._extra = config
        self._domain = f", domain: {domain}" if domain else ""
        self._limits = (f", limits: {{ {limits} }}" if limits else "") + (f", {store}" if store else "")
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"nats://{self._site.address}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """Of the running process, for those who want to stop it with SIGSTOP."""
        assert self._process is not None, "the server is not started"
        return self._process.pid

    def start(self, *, config: str | None = None) -> NatsServer:
        """Start and wait until it serves JetStream; with other configuration lines than before, if given."""
        assert self._process is None, "the server runs already"
        self._extra = self._extra if config is None else config
        listen = f"{self._site.address}:{self.port}"
        jetstream = f'store_dir: "{self.data}"{self._domain}{self._limits}'
        self._config.write_text(f'listen: "{listen}"\njetstream {{ {jetstream} }}\n{self._extra}\n')
        with self._log.open("ab") as log:
            command = [*self._site.within, binary(), "-c", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_until_it_serves()
        return self

    def stop(self) -> None:
        """End in good order; nothing when it does not run."""
        if self._process is not None:
            self._process.terminate()
            self._reap()

    def kill(self) -> None:
        """End at once, as a crash does; nothing when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def freeze(self) -> None:
        """Stop it, as a machine that hangs does, and return once it has: until then it may still answer."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def thaw(self) -> None:
        """Let it go on; nothing when it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def restart(self, *, config: str | None = None) -> None:
        self.stop()
        self.start(config=config)

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait(timeout=START_SECONDS)
        self._process = None

    def _wait_until_it_serves(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                self._process = None
                break
            if _info(self._site.address, self.port).get("jetstream"):
                return
            time.sleep(_POLL_SECONDS)
        self.kill()
        raise AssertionError(f"nats-server did not start on {self.url}:\n{self._log.read_text()[-4000:]}")


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _info(address: str, port: int) -> dict[str, Any]:
    """What the server says of itself to a new client; empty while it does not listen."""
    try:
        with socket.create_connection((address, port), timeout=1) as client:
            line = client.makefile("rb").readline()
    except OSError:
        return {}
    found: dict[str, Any] = json.loads(line.removeprefix(b"INFO ")) if line.startswith(b"INFO ") else {}
    return found
