"""The node from within: the first process in namespaces of its own, from which everything else descends.

`python -m infra.cluster.node NAME`, started by `infra.cluster.life`. When it ends, the kernel ends all of the node:
processes, mounts, interfaces, rules. It starts the daemons, collects children that nobody waits for, and starts a
daemon again that has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from infra.cache import say
from infra.cluster import daemons, machine, network, programs
from infra.cluster.daemons import Daemon
from infra.cluster.instance import Cluster, Problem, saved
from infra.programs.go_programs import Missing

# kubelet sets these for the whole machine. It is given files to write to.
_MACHINES_OWN = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")
_MACHINES_OWN_KEYS = ("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
_READY_SECONDS = 180.0
_RESTART_SECONDS = 1.0
# In the cluster's folder: every daemon serves.
STARTED = "started"
ROOT = Path(__file__).resolve().parents[2]


class Daemons:
    """Those that run, by process."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._running: dict[int, tuple[Daemon, subprocess.Popen[bytes]]] = {}
        self._started = False

    def start_all(self, found: Mapping[str, Path]) -> None:
        """Start them stage by stage, and say that they serve; the node ends when one does not."""
        try:
            for stage in daemons.stages(self._cluster, found):
                for daemon in stage:
                    self._start(daemon)
                for daemon in stage:
                    _wait_until_ready(daemon)
        except (Problem, OSError) as problem:
            _end(str(problem))
        self._started = True
        (self._cluster.folder / STARTED).touch()

    def collect(self) -> None:
        """Forever: take the exit status of children, and of orphans, who become ours."""
        while True:
            pid, status = os.wait()
            if (ended := self._running.pop(pid, None)) is None:
                continue
            daemon, process = ended
            process.returncode = code = os.waitstatus_to_exitcode(status)
            if not self._started:
                _end(f"{daemon.name} ended with {code}")
            say(f"{daemon.name} ended with {code}, starting it again")
            time.sleep(_RESTART_SECONDS)
            self._start(daemon)

    def _start(self, daemon: Daemon) -> None:
        with (self._cluster.logs / f"{daemon.name}.log").open("ab") as log:
            process = subprocess.Popen(daemon.command, stdout=log, stderr=log, env=_ENVIRONMENT, cwd=ROOT)
        self._running[process.pid] = (daemon, process)


def main() -> None:
    """Never returns."""
    cluster = saved(sys.argv[1])
    assert cluster is not None, f"there is no cluster {sys.argv[1]}"
    # The first process of a namespace ignores whatever it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: _end("asked to end"))
    try:
        _set_apart(cluster)
        network.receive_link(cluster.addresses)
        found = programs.found()
    except (Problem, Missing, subprocess.CalledProcessError) as problem:
        _end(str(problem))
    running = Daemons(cluster)
    # Something to wait for from the first moment on.
    subprocess.Popen(["sleep", "infinity"])
    threading.Thread(target=running.start_all, args=(found,), daemon=True).start()
    running.collect()


def _set_apart(cluster: Cluster) -> None:
    """Folders and settings of the machine that programs of Kubernetes write to become the node's own."""
    mount = machine.program("mount")
    subprocess.run([mount, "--make-rshared", "/"], check=True)
    for folder in machine.OWN:
        subprocess.run([mount, "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder], check=True)
    copies = cluster.data / "sysctl"
    for setting in (*_MACHINES_OWN, *_MACHINES_OWN_KEYS):
        original, copy = Path("/proc/sys") / setting, copies / setting
        if original.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(original, copy)
            subprocess.run([mount, "--bind", copy, original], check=True)
    # Of the node's own network.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _wait_until_ready(daemon: Daemon) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _ready(daemon.ready):
        if time.monotonic() > deadline:
            raise Problem(f"{daemon.name} does not serve after {_READY_SECONDS:.0f} s")
        time.sleep(0.05)


def _ready(at: str) -> bool:
    if not at:
        return True
    with contextlib.suppress(OSError):
        if at.startswith("/"):
            with socket.socket(socket.AF_UNIX) as tried:
                tried.connect(at)
                return True
        # Who answers is known: nobody else is in here.
        context = ssl._create_unverified_context() if at.startswith("https") else None
        with urllib.request.urlopen(at, timeout=5, context=context):
            return True
    return False


def _end(reason: str) -> None:
    say(f"the node ends: {reason}")
    # At once, whatever threads there are; the kernel ends the others.
    os._exit(1)


if __name__ == "__main__":
    main()
