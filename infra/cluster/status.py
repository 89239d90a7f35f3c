"""The state of a cluster, told to a person: versions, processes with their memory, pods."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from infra.cluster import cgroups, images, life, machine, programs
from infra.cluster.commands import kubectl, run
from infra.cluster.instance import FOLDER, Cluster, saved

_MEGABYTE = 1024 * 1024


def names() -> list[str]:
    """Of all clusters of which there is anything on this machine."""
    folders = [each.parent.name for each in FOLDER.glob("*/cluster.json")]
    return sorted({*folders, *cgroups.names()})


def tell(name: str) -> Iterator[str]:
    """Lines for a person."""
    cluster, alive = saved(name), cgroups.processes(name)
    if cluster is None:
        yield f"{name}: down" + (f", but {len(alive)} processes are left: `task cluster -- down`" if alive else "")
        return
    if not life.is_up(cluster):
        yield f"{name}: not up, {len(alive)} processes; `task cluster -- up` starts it anew, logs are in {cluster.logs}"
        return
    yield f"{name}: up on {cluster.addresses.network}; pods see this machine as {cluster.addresses.host}"
    yield f"  export KUBECONFIG={cluster.kubeconfig}"
    yield f"  {', '.join(_versions(cluster))}"
    node = cgroups.node_processes(name)
    yield from _memory("node", node)
    yield from _memory("pods", alive - node)
    yield from _pods(cluster)
    yield f"  images: {', '.join(sorted(each for each in images.loaded(cluster) if not each.startswith('sha256:')))}"


def _versions(cluster: Cluster) -> Iterator[str]:
    told = json.loads(kubectl(cluster, "get", "node", "-o", "json"))["items"][0]["status"]["nodeInfo"]
    yield f"Kubernetes {told['kubeletVersion']}"
    yield f"{told['containerRuntimeVersion'].replace('://', ' ')}"
    yield run(cluster, [machine.program("runc"), "--version"]).splitlines()[0].replace(" version", "")
    yield f"Linux {told['kernelVersion']}"
    yield f"Knative Serving {programs.SERVING[0].version}, Eventing {programs.EVENTING[0].version}"


def _memory(what: str, processes: Iterable[int]) -> Iterator[str]:
    """Resident memory by program, the largest first."""
    by_program: dict[str, int] = defaultdict(int)
    for pid in processes:
        name, resident = _process(pid)
        by_program[name] += resident
    largest = sorted(by_program.items(), key=lambda each: -each[1])
    parts = ", ".join(f"{name} {resident / _MEGABYTE:.0f}" for name, resident in largest if resident >= _MEGABYTE)
    yield f"  memory of {what}: {sum(by_program.values()) / _MEGABYTE:.0f} MB ({parts})"


def _process(pid: int) -> tuple[str, int]:
    """Name and resident bytes; nothing of one that has ended meanwhile."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    program = Path(words[0].decode(errors="replace")).name
    if program.startswith("python") and b"-m" in words:
        program = words[words.index(b"-m") + 1].decode(errors="replace")
    return program, pages * 4096


def _pods(cluster: Cluster) -> Iterator[str]:
    for pod in json.loads(kubectl(cluster, "get", "pods", "--all-namespaces", "-o", "json"))["items"]:
        status = pod["status"]
        containers = status.get("containerStatuses") or []
        ready = sum(each["ready"] for each in containers)
        restarts = sum(each["restartCount"] for each in containers)
        again = f", restarted {restarts} times" if restarts else ""
        where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        yield f"  {where}: {status['phase']}, {ready} of {len(containers)} ready{again}"
