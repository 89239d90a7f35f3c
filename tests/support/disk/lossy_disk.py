"""A disk that loses what was not synced when its power fails: a file system of ours, served by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.disk.lossy_tree import Kept


def not_here() -> str:
    """Why this machine can't have such a disk; empty where it can."""
    if os.geteuid() != 0:
        return "a disk that loses its power is a mount: that needs root"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "a disk that loses its power is a FUSE file system: there is no /dev/fuse here"
    return ""


class LossyDisk:
    """Use it as a context manager.

    Attributes:
        root: of the file system.
    """

    root: Path

    def __init__(self, directory: Path, *, strict: bool = False) -> None:
        self._place = directory / "disk"
        self._place.mkdir(parents=True, exist_ok=True)
        self._options = ["strict"] if strict else []

    def start(self) -> LossyDisk:
        command = [sys.executable, "-m", "tests.support.disk.fuse", str(self._place), *self._options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._said() == "mounted", "the disk was not mounted: its process has said why"
        self.root = Path(f"/proc/{self._process.pid}/root{self._place.resolve()}")
        return self

    def cut(self, seed: int, kept: Kept = Kept.SOME) -> int:
        """Lose power, and have it again; the bytes that were not synced. Whoever uses the disk must be dead by then."""
        return int(self._do(f"cut {seed} {kept.value}"))

    def sync(self) -> None:
        """Write everything down, as sync(1) does."""
        self._do("sync")

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait(30)

    def _do(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._said()

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> LossyDisk:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
