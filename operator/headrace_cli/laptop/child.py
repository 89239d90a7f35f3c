"""One child process: it is started, probed and stopped, and never left behind.

This module knows processes, ports and probes. It does not know what runs in a process, nor why. No child outlives its
parent: each child is stopped at the end, and on Linux the kernel kills it if the parent is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from headrace.core.errors import Misconfigured, Unavailable
from headrace.io.process import log

# A cold Python with its imports takes about a second on a busy laptop.
START_SECONDS = 30.0
POLL_SECONDS = 0.005
# The default delivery timeout is 60 s: an event in a subscriber's hands is finished, not dropped.
STOP_SECONDS = 70.0
# A person who waits at a terminal wants to know the reason.
TELL_SECONDS = 5.0

LOOPBACK = "127.0.0.1"
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

_log = log.get("up")

Probe = Callable[[], Awaitable[bool]]


class Ended(Unavailable):
    """All children were killed, and none is started any more."""


class ChildProcess:
    """One running process.

    Attributes:
        url: where it answers.
        finishes: the work that it may still have to end when it is asked to stop, for people; empty: not known.
        start_ms: the time from the start to the first good answer of its probe.
        killed: we have killed it.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, url: str) -> None:
        self.name = name
        self.url = url
        self.finishes = ""
        self.start_ms = 0
        self.killed = False
        self._process = process
        self._began = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        return await self._process.wait()

    def kill(self) -> None:
        self.killed = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def terminate(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    async def stop(self, why: str, grace: float = STOP_SECONDS) -> None:
        """SIGTERM, and SIGKILL when that has no effect within `grace` seconds."""
        if not self.alive:
            return
        self.terminate()
        telling = asyncio.get_running_loop().call_later(TELL_SECONDS, self._tell_of_waiting, grace - TELL_SECONDS)
        try:
            async with asyncio.timeout(grace):
                await self.wait()
        except TimeoutError:
            _log.warning(f"{self.name} does not stop, killing it", pid=self.pid)
            self.kill()
            await self.wait()
        finally:
            telling.cancel()
        _log.info(f"{self.name} stopped", pid=self.pid, why=why, ran_s=round(time.monotonic() - self._began, 1))

    def _tell_of_waiting(self, left: float) -> None:
        what = f"finishes {self.finishes}" if self.finishes else "has not ended yet"
        _log.warning(f"waiting for {self.name}, which {what}", pid=self.pid, killed_in_s=round(left))


class ChildProcesses:
    """Starts processes and keeps track of them."""

    def __init__(self) -> None:
        self._running: set[ChildProcess] = set()
        self.killed = False

    async def start(
        self, name: str, argv: Sequence[str], environment: Mapping[str, str], url: str, ready: Probe, *, why: str
    ) -> ChildProcess:
        """Start a process and wait until its probe is good.

        Raises:
            Unavailable: the process ended, or was not ready in time and is gone. Ended: after `kill`.
        """
        if self.killed:
            raise Ended(f"{name} is not started any more")
        process = await _spawn(name, argv, environment)
        child = ChildProcess(name, process, url)
        self._running = {other for other in self._running if other.alive} | {child}
        if self.killed:
            child.kill()
        began = time.monotonic()
        try:
            await _until_ready(child, ready)
        except BaseException as error:
            child.kill()
            await child.wait()
            if self.killed and isinstance(error, Unavailable):
                raise Ended(f"{name} was killed while it was starting") from error
            raise
        child.start_ms = round((time.monotonic() - began) * 1000)
        _log.info(f"{name} started", pid=child.pid, why=why, took_ms=child.start_ms, url=url)
        return child

    def kill(self) -> None:
        """Kill all of them, and start none any more."""
        self.killed = True
        for child in self._running:
            child.kill()


def free_port(host: str = LOOPBACK) -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def demand_free(host: str, port: int, option: str) -> None:
    """Raises Misconfigured, naming the option that asks for the port, when nobody could listen there now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As the servers do, so that lingering connections of an earlier run are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Misconfigured(
                f"can't listen on {host}:{port} ({error}): stop what does, or give another {option}", field=option
            ) from error


async def answers_200(host: str, port: int, path: str) -> bool:
    """Is a GET of that path answered with 200?"""
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    return (await first_line(host, port, request.encode())).split(b" ")[1:2] == [b"200"]


async def first_line(host: str, port: int, request: bytes = b"") -> bytes:
    """The first line that a server sends, upon a request or unasked; empty when none is there, or it is silent."""
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):  # the last of a line without end
        return b""


async def _until_ready(child: ChildProcess, ready: Probe) -> None:
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await ready():
                if not child.alive:
                    raise Unavailable(f"{child.name} ended with status {await child.wait()} while it was starting")
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise Unavailable(f"{child.name} was not ready within {START_SECONDS:.0f} s") from None


async def _spawn(name: str, argv: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    parent = os.getpid()
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            # Our standard output is for the `ready` line only.
            stdout=sys.stderr.fileno(),
            # A Ctrl-C in the terminal is for the parent alone, which stops its children in order.
            start_new_session=True,
            preexec_fn=lambda: _die_with(parent),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{name} can't be started: {error}") from error


def _die_with(parent: int) -> None:
    """Ask the kernel that this child be killed with its parent; runs in the child, before its program."""
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
