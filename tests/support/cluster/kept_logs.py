"""Logs of pods of ours, kept beyond the pods: kubelet removes a log with its pod, and a second name keeps the file."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

# Containers of ours, by name.
OURS = ("operator", "reconcile", "receive", "forward")
_EVERY_SECONDS = 0.5


class KeptLogs:
    """Use it as a context manager: it looks for new files meanwhile."""

    def __init__(self, pods: Path, kept: Path) -> None:
        """Args:
        pods: the folder that kubelet writes logs to.
        kept: for the second names, on the same file system.
        """
        self._pods, self._kept = pods, kept
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="logs", daemon=True)

    def __enter__(self) -> KeptLogs:
        shutil.rmtree(self._kept, ignore_errors=True)
        self._kept.mkdir()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(10)

    def lines(self) -> Iterator[tuple[str, str]]:
        """All so far: of which container, and the line."""
        for file in sorted(self._kept.iterdir()):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                # Time, stream and tag of kubelet's go before it.
                yield file.name, line.split(" ", 3)[-1]

    def _keep(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            for container in OURS:
                for file in self._pods.glob(f"*/{container}/*.log"):
                    self._link(file)

    def _link(self, file: Path) -> None:
        # By inode: kubelet gives a log that it turns over another name, and the next one the same.
        with suppress(FileNotFoundError, FileExistsError):
            pod = file.parent.parent.name.rsplit("_", 1)[0]
            os.link(file, self._kept / f"{pod}_{file.parent.name}_{file.stat().st_ino}.log")
