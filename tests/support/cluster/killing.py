"""SIGKILL of a cluster's processes: they run on this machine, and their cgroups say whose they are."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from infra.cluster import cgroups
from infra.cluster.instance import Cluster
from tests.support.cluster.kubectl import Pod


def kill(pods: Iterable[Pod], container: str) -> int:
    """SIGKILL every process of this container in these pods; how many containers had one."""
    wanted = {pod.containers[container] for pod in pods if container in pod.containers}
    struck = set()
    for pid, ids in _of_containers(wanted):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            struck |= ids
    return len(struck)


def kill_daemon(cluster: Cluster, program: str) -> None:
    """SIGKILL a program of the node, which starts it again."""
    killed = 0
    for pid in cgroups.node_processes(cluster.name):
        with suppress(OSError):
            words = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
            if Path(words[0].decode()).name == program:
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed == 1, f"{killed} processes are a {program}"


def _of_containers(wanted: set[str]) -> Iterator[tuple[int, set[str]]]:
    """Processes with the containers they belong to."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # Gone meanwhile.
            with suppress(OSError):
                text = (entry / "cgroup").read_text(encoding="ascii")
                if ids := {one for one in wanted if one in text}:
                    yield int(entry.name), ids
