"""A disk that can stand still: an ext4 of its own in a file, which the kernel freezes as for a snapshot of it.

Whoever writes to it then waits, in the kernel and beyond any signal, until it is thawed. Limits of a cgroup would not
do: they hold back `fsync`, which nats-server calls every two minutes, and not what it writes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.faults.processes import Cluster

_FREEZE, _THAW = 0xC0045877, 0xC0045878
# Sparse: only what is written takes room.
_BYTES = 2 * 2**30


def why_not() -> str:
    """Why there can be no such disk here; nothing where there can be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a disk of its own needs root on Linux"
    missing = [name for name in ("mkfs.ext4", "mount", "umount") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} can't be found (Debian: e2fsprogs, mount)"
    return "" if Path("/dev/loop-control").exists() else "this kernel has no loop devices"


class Disk:
    """One disk; use `mount` and `unmount` in turn."""

    def __init__(self, at: Path) -> None:
        """Args:
        at: where it is to be mounted.
        """
        self._at = at
        self._image = at.with_suffix(".ext4")
        self._mounted = self._frozen = False

    def mount(self) -> None:
        self._at.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as image:
            image.truncate(_BYTES)
        subprocess.run(["mkfs.ext4", "-q", self._image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", self._image, self._at], check=True, capture_output=True)
        self._mounted = True

    def unmount(self) -> None:
        self.thaw()
        if self._mounted:
            subprocess.run(["umount", "-l", self._at], check=True, capture_output=True)
            self._mounted = False

    def freeze(self) -> None:
        """Nothing is written from now on, and whoever tries waits."""
        self._order(_FREEZE)
        self._frozen = True

    def thaw(self) -> None:
        """Nothing when it isn't frozen."""
        if self._frozen:
            self._order(_THAW)
            self._frozen = False

    def _order(self, what: int) -> None:
        opened = os.open(self._at, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, what, 0)
        finally:
            os.close(opened)


class ClusterOnDisks(Cluster):
    """Three nats-servers with a disk each.

    Attributes:
        disks: in the order of the nodes.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.disks = [Disk(node.data) for node in self.nodes]

    def start(self) -> None:
        for disk in self.disks:
            disk.mount()
        super().start()

    def kill(self) -> None:
        # Nobody who waits for a frozen disk can be killed.
        for disk in self.disks:
            disk.thaw()
        super().kill()
        for disk in self.disks:
            with suppress(subprocess.CalledProcessError):
                disk.unmount()
