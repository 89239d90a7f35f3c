"""Programs that start Spark: all that they have started ends with them, and at the latest with the test.

Each gets a session of the operating system for itself. JVMs and Python's workers stay in it, though they make process
groups of their own, and when their parents are dead.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil

# On busy cores a session alone takes a minute.
SECONDS = 280.0
_KILL_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1


class Program:
    """A running program; a context manager that kills all of it in the end."""

    def __init__(
        self, command: Sequence[str | Path], environment: Mapping[str, str], *, log: int | None = None
    ) -> None:
        """Args:
        environment: added to our own.
        log: where both outputs go, as for `subprocess`; ours, if not given.
        """
        self._child = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_die_with_parent,
            text=True,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def wait(self) -> tuple[int, str]:
        """The exit status and what it has said, if that was piped.

        Raises:
            subprocess.TimeoutExpired: after SECONDS.
        """
        said, _ = self._child.communicate(timeout=SECONDS)
        return self._child.returncode, said or ""

    def kill(self) -> None:
        """The program, its JVM and all Python workers, at once and without a word."""
        deadline = time.monotonic() + _KILL_SECONDS
        while alive := self._alive():
            assert time.monotonic() < deadline, f"processes {alive} can't be killed"
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._child.poll()
            time.sleep(0.01)
        self._child.wait(_KILL_SECONDS)

    def _alive(self) -> list[int]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(process.pid) == self._child.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
        return found


def _die_with_parent() -> None:
    """Have the kernel end the program when these tests are killed themselves; the rest ends of itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run(command: Sequence[str | Path], environment: Mapping[str, str]) -> str:
    """Run it to its end; what it has said, on both outputs."""
    with Program(command, environment, log=subprocess.PIPE) as program:
        status, said = program.wait()
    assert status == 0, f"{command[0]} ended with {status}:\n{said[-3000:]}"
    return said
