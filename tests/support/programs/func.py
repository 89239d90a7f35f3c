"""The real `func` in a copy of this repository: its commands, as docs/install.md has them, and `func run`."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from infra.cache import CACHE
from infra.programs import tool_binaries
from tests.support.kube.install import blocks
from tests.support.programs import repository

# pip installs the function and its scaffold meanwhile, on a machine that may be busy with other things.
BUILD_SECONDS = 500.0
_STOP_SECONDS = 60.0


def commands(about: str) -> list[str]:
    """Of the blocks of docs/install.md that are marked so, one command each."""
    text = "".join(block.text for block in blocks() if block.about == f"func {about}")
    return text.replace("\\\n", " ").splitlines()


class Func:
    """`func` in a clean copy, without the user's own settings and without a registry's password.

    Attributes:
        directory: the copy.
    """

    def __init__(self, directory: Path, variables: Mapping[str, str] | None = None) -> None:
        self.directory = repository.copy(directory / "copy")
        self._home = directory / "home"
        self._home.mkdir()
        self._program = tool_binaries.found(tool_binaries.FUNC)["func"]
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("FUNC_", "NATS_", "KUBE"))}
        # Its own home, but pip's downloads are kept: they are the same every time.
        cache = {"PIP_CACHE_DIR": str(CACHE / "pip"), "HOME": str(self._home)}
        self._environment = {**outside, **cache, "KUBECONFIG": str(self._home / "none"), **(variables or {})}

    def words(self, command: str) -> list[str]:
        """A command of the document as arguments; `$` stands for a variable."""
        first, *others = shlex.split(command)
        assert first == "func", command
        return [str(self._program), *(os.path.expandvars(word) for word in others)]

    def ran(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, whatever that is."""
        return subprocess.run(
            self.words(command),
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def said(self, command: str) -> str:
        """What a command writes that must succeed."""
        done = self.ran(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def running(self, command: str, until: str) -> Iterator[Started]:
        """A command that goes on, from when it has said a word until it is told to stop."""
        started = Started(self.words(command), self.directory, self._environment)
        try:
            started.wait_for(until)
            yield started
        finally:
            started.end()


class Started:
    """A process of `func` and its children, in a session of their own."""

    def __init__(self, words: list[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._log = directory.with_name("func.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                words,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, words: str) -> None:
        """Until it has written them.

        Raises:
            AssertionError: it ended before, or it took too long.
        """
        deadline = time.monotonic() + BUILD_SECONDS
        while words not in self.log:
            ended = self._process.poll() is not None
            assert (not ended and time.monotonic() < deadline) or words in self.log, (
                f"func does not say {words!r}; its log ends:\n{self.log[-4000:]}"
            )
            time.sleep(0.1)

    def interrupt(self) -> int:
        """As Ctrl-C does; the exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(_STOP_SECONDS)

    def end(self) -> None:
        """Nothing of it is left afterwards: a func that fails leaves its function running."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_STOP_SECONDS)
