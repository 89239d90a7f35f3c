"""The cgroups of a cluster: they hold all of its processes, so they tell which are alive, and end them.

`/headrace-<name>/node` holds the node's own programs, `/headrace-<name>/pods` the containers. In version 1 every
hierarchy has these folders, in version 2 the only one. A process can't leave them by becoming somebody else's child, so
a crash of whoever started it hides nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from infra.cluster.instance import Problem

_MOUNTS = Path("/proc/self/mounts")
# Other programs on the machine have 1,024 each. A cluster that starves gives no figures, and one that takes everything
# holds up the programs that measure it.
_SHARES, _WEIGHT = 4_096, 400
_NODE_SHARES, _NODE_WEIGHT = 4_096, 400
_KILL_SECONDS = 30.0


def root(name: str) -> str:
    """As kubelet and runc name it: below the mount of each hierarchy."""
    return f"/headrace-{name}"


def pods(name: str) -> str:
    return f"{root(name)}/pods"


def create(name: str) -> None:
    """Make the folders, with this cluster's part of the processors.

    The node's programs get more than all pods together, so that pods which compute don't keep kubelet from its probes.

    Raises:
        Problem: this machine does not let them be made.
    """
    for mount in _hierarchies():
        top = mount / root(name).lstrip("/")
        _hand_on(mount)
        for folder in (top, top / "node", top / "pods"):
            folder.mkdir(exist_ok=True)
            _inherit_cpuset(folder)
        _hand_on(top)
        for folder, shares, weight in ((top, _SHARES, _WEIGHT), (top / "node", _NODE_SHARES, _NODE_WEIGHT)):
            for file, value in (("cpu.shares", shares), ("cpu.weight", weight)):
                if (folder / file).exists():
                    (folder / file).write_text(str(value))


def joining(name: str) -> Callable[[], None]:
    """For a child, before it becomes its program: puts it among the node's."""
    files = [mount / root(name).lstrip("/") / "node" / "cgroup.procs" for mount in _hierarchies()]

    def join() -> None:
        for file in files:
            file.write_text("0")

    return join


def processes(name: str) -> set[int]:
    """All that live, of node and pods."""
    found: set[int] = set()
    for folder in _folders(name):
        # A folder may go while one looks.
        with contextlib.suppress(OSError):
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
    return found


def node_processes(name: str) -> set[int]:
    """The node's own."""
    with contextlib.suppress(OSError):
        return set(map(int, (_hierarchies()[0] / root(name).lstrip("/") / "node/cgroup.procs").read_text().split()))
    return set()


def names() -> Sequence[str]:
    """Of all clusters that have cgroups on this machine."""
    found = {each.name.removeprefix("headrace-") for mount in _hierarchies() for each in mount.glob("headrace-*")}
    return sorted(found)


def kill(name: str) -> int:
    """SIGKILL everything until nothing is left; how many there were.

    Raises:
        TimeoutError: something does not go away.
    """
    deadline, killed = time.monotonic() + _KILL_SECONDS, set[int]()
    while alive := processes(name):
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= alive
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {sorted(alive)} do not end")
        time.sleep(0.05)
    return len(killed)


def remove(name: str) -> None:
    """Remove the folders, which are without processes; kernels need a moment for that.

    Raises:
        OSError: one can't be removed.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while folders := list(_folders(name)):
        for folder in reversed(folders):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
                break


def _folders(name: str) -> Iterator[Path]:
    """Parents before children."""
    for mount in _hierarchies():
        # Passes over folders that go meanwhile.
        for folder, _, _ in os.walk(mount / root(name).lstrip("/")):
            yield Path(folder)


def _hierarchies() -> list[Path]:
    lines = [line.split() for line in _MOUNTS.read_text().splitlines()]
    return [Path(line[1]) for line in lines if line[2] in ("cgroup", "cgroup2")]


def _inherit_cpuset(folder: Path) -> None:
    """Version 1: a new folder has no processors and no memory, and takes no process until it has some."""
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (folder / file).exists() and not (folder / "cgroup.controllers").exists():
            (folder / file).write_text((folder.parent / file).read_text())


def _hand_on(folder: Path) -> None:
    """Version 2: folders within have only those controllers that this one hands on to them."""
    if not (folder / "cgroup.controllers").exists():
        return
    handed_on = folder / "cgroup.subtree_control"
    missing = set((folder / "cgroup.controllers").read_text().split()) - set(handed_on.read_text().split())
    for controller in sorted(missing):
        try:
            handed_on.write_text(f"+{controller}")
        except OSError as problem:
            raise Problem(f"the cgroup {folder} can't hand on {controller}, as in a container: {problem}") from problem
