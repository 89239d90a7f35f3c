"""From nothing to a cluster, and back to nothing.

Before anything starts, the name, the network and the machine are checked. Then the node starts, and beside it the
images are made; then Knative and NATS.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from infra.cache import locked, say
from infra.cluster import (
    certificates,
    cgroups,
    configuration,
    images,
    instance,
    knative,
    machine,
    nats,
    network,
    programs,
)
from infra.cluster.commands import kubectl
from infra.cluster.instance import NODE, Cluster, Problem
from infra.cluster.node import ROOT, STARTED

_START_SECONDS = 240.0
# In the cluster's folder: `up` came to its end.
_UP = "up"
# A network that is well formed.
_ANY = "10.97.0.0/16"
# Nodes that this process has started; `sweep` sees their end.
_OUTLIVING: list[subprocess.Popen[bytes]] = []


class Clock:
    """Progress lines with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, words: str) -> None:
        say(f"{time.monotonic() - self._began:5.1f} s  {words}")


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """One `up` or `down` of a cluster at a time: a second one waits."""
    with locked(instance.FOLDER / f"{instance.checked(name)}.lock"):
        yield


def up(name: str, wanted_network: str | None = None, *, bare: bool = False) -> Cluster:
    """The cluster of that name, ready for use. One that runs is left as it is; what a crash has left is removed first.

    Args:
        bare: Kubernetes alone.

    Raises:
        Problem: it can't be had; nothing is left of it then.
    """
    instance.of(name, wanted_network or _ANY)
    machine.prepare()
    programs.prepare()
    archives = list(images.files(images.of_cluster(bare=bare)))
    if (running := instance.saved(name)) and is_up(running):
        if wanted_network not in (None, str(running.addresses.network)):
            raise Problem(f"{name} is up on {running.addresses.network}, not on {wanted_network}: take it down first")
        say(f"{name} is up already, on {running.addresses.network}")
        return running
    sweep(name)
    clock = Clock()
    cluster, node = _start(name, wanted_network)
    try:
        _fill(cluster, node, archives, clock, bare=bare)
    except BaseException:
        _tell_what_was(cluster)
        say(f"{name} did not come up; logs are in {cluster.logs}")
        sweep(name)
        raise
    (cluster.folder / _UP).touch()
    return cluster


def is_up(cluster: Cluster) -> bool:
    """Did `up` come to its end, and does the API server answer still?"""
    if not (cluster.folder / _UP).exists() or not cgroups.node_processes(cluster.name):
        return False
    try:
        kubectl(cluster, "get", "--raw=/readyz", "--request-timeout=10s")
    except Problem:
        return False
    return True


def sweep(name: str) -> int:
    """Leave nothing of that cluster but its logs, however it ended; how many processes were ended.

    Raises:
        Problem: something can't be removed.
    """
    folder = instance.folder(instance.checked(name))
    try:
        killed = cgroups.kill(name)
        _OUTLIVING[:] = [node for node in _OUTLIVING if node.poll() is None]
        network.disconnect(name)
        cgroups.remove(name)
    except (TimeoutError, OSError) as problem:
        raise Problem(f"{name} can't be taken down wholly: {problem}") from problem
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return killed


def _start(name: str, wanted_network: str | None) -> tuple[Cluster, subprocess.Popen[bytes]]:
    """The node's first process, on a network that nobody else chooses meanwhile."""
    with locked(instance.FOLDER / "network.lock"):
        cluster = network.choose(name, wanted_network)
        try:
            _prepare(cluster)
            return cluster, _start_node(cluster)
        except BaseException:
            sweep(name)
            raise


def _fill(
    cluster: Cluster, node: subprocess.Popen[bytes], archives: Sequence[Path], clock: Clock, *, bare: bool
) -> None:
    """Wait for the node, and have in it what belongs there; images come in meanwhile, before any pod asks for one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        loading = pool.submit(_load, cluster, node, archives, clock)
        _wait_for_node(cluster, node)
        clock.say("control plane and node serve")
        if not bare:
            knative.define(cluster)
        loading.result()
    if not bare:
        knative.apply(cluster)
        nats.apply(cluster)
        clock.say("Knative and NATS are applied")
    kubectl(cluster, "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=120s")
    if not bare:
        nats.wait(cluster)
        clock.say("NATS is ready")
        knative.wait(cluster)
        clock.say("Knative is ready")


def _prepare(cluster: Cluster) -> None:
    """Its files and cgroups."""
    shutil.rmtree(cluster.logs, ignore_errors=True)
    cluster.logs.mkdir(parents=True)
    cgroups.create(cluster.name)
    cluster.save()
    certificates.make(cluster)
    configuration.write(cluster)


def _start_node(cluster: Cluster) -> subprocess.Popen[bytes]:
    command = [*machine.APART, "--", sys.executable, "-m", "infra.cluster.node", cluster.name]
    with (cluster.logs / "node.log").open("wb") as log:
        node = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # It outlives this process, and a Ctrl-C is not for it.
            start_new_session=True,
            preexec_fn=cgroups.joining(cluster.name),
        )
    # Or Python would complain of it when it forgets it.
    _OUTLIVING.append(node)
    # Until unshare has made them, its namespaces are ours.
    while _network(node.pid) == _network(os.getpid()):
        time.sleep(0.01)
    network.connect(cluster, node.pid)
    return node


def _network(pid: int) -> str:
    """The network namespace of a process; empty when it has ended."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    return ""


def _tell_what_was(cluster: Cluster) -> None:
    """Beside the logs: pods and events, which go with the cluster."""
    for what in ("pods", "events"):
        with contextlib.suppress(Problem):
            told = kubectl(cluster, "get", what, "--all-namespaces", "-o", "wide", "--request-timeout=10s")
            (cluster.logs / f"{what}.txt").write_text(told)


def _load(cluster: Cluster, node: subprocess.Popen[bytes], archives: Sequence[Path], clock: Clock) -> None:
    """Bring the images in, as soon as containerd takes them."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            images.loaded(cluster)
            break
        except Problem:
            if node.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    for archive in archives:
        images.load(cluster, archive)
    clock.say(f"{len(archives)} images are loaded")


def _wait_for_node(cluster: Cluster, node: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not (cluster.folder / STARTED).exists():
        if node.poll() is not None or time.monotonic() > deadline:
            log = (cluster.logs / "node.log").read_text(errors="replace")
            raise Problem(f"the node did not start: {log[-2000:].strip()}; see {cluster.logs}")
        time.sleep(0.05)
