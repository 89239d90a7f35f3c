"""The processes that are killed: functions, a nats-server or three, a subscriber of its own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from bench.processes import peak_rss
from tests.faults.sink import Arrival
from tests.support.functions.functions import Function
from tests.support.nats.nats_server import NatsServer
from tests.support.programs.process import LOOPBACK, Running, Site

ROOT = Path(__file__).resolve().parents[2]


_ports = itertools.count(20_000 + os.getpid() % 400 * 25)
_ports_lock = threading.Lock()


def own_port() -> int:
    """A port that stays ours: below those that the kernel hands out, so that nobody gets it while its owner is dead."""
    with _ports_lock:
        for port in _ports:
            with socket.socket() as probe, suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise AssertionError("no port is free")


class Host(Function):
    """A function that can be killed and frozen from any thread, and comes back on its port.

    Attributes:
        peak: the most memory of all its lives so far, in bytes.
    """

    peak = 0

    def __init__(self, target: str, nats_url: str, directory: Path, *, site: Site = LOOPBACK, **settings: str) -> None:
        port = own_port()
        super().__init__(target, nats_url, directory, ready=True, HOST=site.address, PORT=str(port), **settings)
        self.site = site
        self.port = port

    @property
    def pid(self) -> int:
        return self._running.pid

    def signal(self, number: signal.Signals) -> None:
        self.remember_peak()
        # Its number may belong to somebody else once it has ended.
        if not self.dead():
            os.kill(self.pid, number)

    def shoot(self) -> None:
        """SIGKILL, without waiting for the end: for hooks."""
        self.signal(signal.SIGKILL)

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def dead(self) -> bool:
        """Has it ended?"""
        try:
            self._running.wait(0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def revive(self) -> None:
        """Make sure that it is dead, and start it again."""
        self.end()
        self.start()

    def remember_peak(self) -> None:
        with suppress(OSError, StopIteration, psutil.Error):
            self.peak = max(self.peak, peak_rss(self.pid))

    def end(self) -> None:
        """SIGKILL, wherever it is."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self.wait()


class Cluster:
    """Three nats-servers that form one cluster; channels have three replicas."""

    NAMES = ("n0", "n1", "n2")

    def __init__(
        self,
        directory: Path,
        site: Callable[[str], Site] = lambda _: LOOPBACK,
        node: Callable[..., NatsServer] = NatsServer,
    ) -> None:
        """Args:
        site: where each of the three runs.
        node: makes one of them.
        """
        listens = {name: f"{site(name).address}:{own_port()}" for name in self.NAMES}
        peers = ", ".join(f'"nats-route://{listen}"' for listen in listens.values())
        self.nodes = [
            node(
                directory / name,
                config=f'server_name: "{name}"\ncluster {{ name: bench, listen: "{listen}", routes: [{peers}] }}',
                port=own_port(),
                site=site(name),
            )
            for name, listen in listens.items()
        ]

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def node(self, name: str) -> NatsServer:
        return self.nodes[int(name.removeprefix("n"))]


class ScalerProcess:
    """The scaler as a process of its own (`tests.faults.scaling`)."""

    def __init__(self, site: Site, **asked: Any) -> None:
        self._command = [*site.within, sys.executable, "-m", "tests.faults.scaling", json.dumps(asked)]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


class SinkProcess:
    """A subscriber as a process of its own; what it took is read from its file."""

    def __init__(self, directory: Path, delay: float = 0.0) -> None:
        self.port = own_port()
        self._file = directory / "taken.txt"
        self._file.touch()
        self._directory = directory
        self._delay = delay
        self._process: Running | None = None

    def uri(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.faults.sink", str(self.port), str(self._file), str(self._delay)]
        environment = {"PYTHONPATH": str(ROOT)}
        self._process = Running("sink", command, self.port, self._directory, environment).wait_until_open()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process = None

    def arrivals(self, path: str) -> list[Arrival]:
        lines = [line.split(" ") for line in self._file.read_text().splitlines()]
        return [Arrival(place, {}, float(at), id) for place, id, at in lines if place == path]
