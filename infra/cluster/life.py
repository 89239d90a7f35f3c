"""From nothing to a cluster, and back to nothing.

The order: what can't be (a name, a network, a machine) is found out before anything starts; then the node, and beside
it the images; then Knative and NATS.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
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


def up(name: str, wanted_network: str | None) -> Cluster:
    """The cluster of that name, ready for use. One that runs is left as it is; what a crash has left is removed first.

    Raises:
        Problem: it can't be had; nothing is left of it then.
    """
    machine.prepare()
    programs.prepare()
    archives = list(images.files(images.of_cluster()))
    if (running := instance.saved(name)) and is_up(running):
        say(f"{name} is up already, on {running.addresses.network}")
        return running
    sweep(name)
    clock = Clock()
    with locked(instance.FOLDER / "network.lock"):
        cluster = network.choose(name, wanted_network)
        try:
            _prepare(cluster)
            node = _start_node(cluster)
        except BaseException:
            sweep(name)
            raise
    try:
        with ThreadPoolExecutor(max_workers=2) as pool:
            loading = pool.submit(_load, cluster, archives, clock)
            _wait_for_node(cluster, node)
            clock.say("control plane and node serve")
            knative.apply(cluster)
            nats.apply(cluster)
            clock.say("Knative and NATS are applied")
            loading.result()
        kubectl(cluster, "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=120s")
        nats.wait(cluster)
        clock.say("NATS is ready")
        knative.wait(cluster)
        clock.say("Knative is ready")
    except BaseException:
        say(f"{name} did not come up; logs are in {cluster.logs}")
        sweep(name)
        raise
    (cluster.folder / "up").touch()
    return cluster


def is_up(cluster: Cluster) -> bool:
    """Did `up` come to its end, and does the API server answer still?"""
    if not (cluster.folder / "up").exists() or not cgroups.node_processes(cluster.name):
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
        network.disconnect(name)
        cgroups.remove(name)
    except (TimeoutError, OSError) as problem:
        raise Problem(f"{name} can't be taken down wholly: {problem}") from problem
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name != "logs":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return killed


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
    deadline = time.monotonic() + 10
    # Until unshare has made them, its namespaces are ours.
    while _same_network(node.pid) and node.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    network.connect(cluster, node.pid)
    return node


def _same_network(pid: int) -> bool:
    return Path(f"/proc/{pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink()


def _load(cluster: Cluster, archives: list[Path], clock: Clock) -> None:
    """Bring the images in, as soon as containerd takes them."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            images.loaded(cluster)
            break
        except Problem:
            if time.monotonic() > deadline:
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
