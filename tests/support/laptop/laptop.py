"""`headrace up` as a person runs it: a process, its lines on standard output, its log, its signals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from tests.support.http.sending import BINARY, Reply, send
from tests.support.nats.nats_server import free_port

READY_SECONDS = 90.0
STOP_SECONDS = 30.0
MARK = "LAPTOP_OF_A_TEST"

CHANNEL = """
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {name: NAME}
---
"""

SUBSCRIPTION = """
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: NAME}
spec:
  channel: {kind: NatsJetStreamChannel, name: CHANNEL}
  subscriber: {uri: "URI"}
---
"""


def channel(name: str = "orders") -> str:
    return CHANNEL.replace("NAME", name)


def subscription(name: str, uri: str, of: str = "orders") -> str:
    return SUBSCRIPTION.replace("NAME", name).replace("CHANNEL", of).replace("URI", uri)


class Laptop:
    """One `headrace up`; use it as a context manager, which kills what is left of it.

    Args:
        directory: for its manifests, its data, its log and its status file.
    """

    def __init__(self, directory: Path, *manifests: str, options: tuple[str, ...] = (), **environment: str) -> None:
        self._directory = directory
        self._environment = environment
        self._options = options
        self._process: subprocess.Popen[str]
        self._ready = threading.Event()
        self._mark = secrets.token_hex(8)
        self.lines: list[str] = []
        self.port = free_port()
        self.manifests = directory / "manifests.yaml"
        self.write(*manifests)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def write(self, *manifests: str) -> None:
        """Replace the manifest file."""
        self.manifests.write_text("".join(manifests))

    def start(self) -> Laptop:
        """Start it, without waiting for anything."""
        command = [sys.executable, "-m", "headrace_cli", "up", "-f", str(self.manifests)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--status-file", str(self._directory / "status.json")]
        command += (
            [*self._options] if "--nats" in self._options else ["--data", str(self._directory / "data"), *self._options]
        )
        surrounding = {name: value for name, value in os.environ.items() if not name.startswith(("NATS_", "HEADRACE_"))}
        with (self._directory / "up.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**surrounding, **self._environment, MARK: self._mark},
                start_new_session=True,
            )
        self._ready.clear()
        threading.Thread(target=self._read, daemon=True).start()
        return self

    def wait_until_ready(self) -> str:
        """The line that begins with `ready`."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready.is_set():
            ended = self._process.poll()
            assert ended is None, f"headrace up ended with {ended}; its log ends:\n{self.log[-3000:]}"
            assert time.monotonic() < deadline, f"not ready; the log ends:\n{self.log[-3000:]}"
            self._ready.wait(0.05)
        return self.lines[-1]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole foreground group."""
        os.killpg(self._process.pid, signal.SIGINT)

    def reload(self, *manifests: str) -> None:
        """Write other manifests and tell of it."""
        self.write(*manifests)
        self.signal(signal.SIGHUP)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Its exit status, once it has ended."""
        return self._process.wait(seconds)

    def stop(self) -> int:
        self.interrupt()
        return self.wait()

    @property
    def log(self) -> str:
        return (self._directory / "up.log").read_text(encoding="utf-8", errors="replace")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What `headrace up` itself has logged; functions write to the same file."""
        lines = [line for line in self.log.splitlines() if line.startswith("{")]
        return [line for line in map(json.loads, lines) if line.get("part") in ("up", "scaler")]

    @property
    def state(self) -> Any:
        """What the status file says."""
        return json.loads((self._directory / "status.json").read_text())

    def until(self, claim: Any, what: str, seconds: float = 60.0) -> None:
        """Wait until `claim(self)` holds; fails the test when it does not."""
        deadline = time.monotonic() + seconds
        while not claim(self):
            assert time.monotonic() < deadline, f"{what} within {seconds} s: no; the log ends:\n{self.log[-3000:]}"
            time.sleep(0.05)

    def child(self, name: str) -> int:
        """The pid of a running child: nats-server, or the target of a function."""
        for process in self.family():
            if name == process.name() or process.environ().get("FUNCTION_TARGET") == name:
                return int(process.pid)
        raise AssertionError(f"{name} does not run")

    def family(self) -> list[psutil.Process]:
        """All processes that descend from it, whoever their parent is now: they have its mark in their environment."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def survivors(self, seconds: float = 5.0) -> list[str]:
        """Which processes are still there, after so many seconds at most."""
        deadline = time.monotonic() + seconds
        while (left := self.family()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [str(process) for process in left]

    def __enter__(self) -> Laptop:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for process in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))
            if re.match(r"ready\b", line):
                self._ready.set()
        self._process.stdout.close()

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self._mark
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            return False


Run = Callable[..., Laptop]


async def emit(laptop: Laptop, *ids: str, to: str = "/default/orders", **headers: str) -> list[Reply]:
    return [await send(laptop.url + to, b"{}", {**BINARY, "ce-id": id, **headers}) for id in ids]
