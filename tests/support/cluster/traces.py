"""Traces that a cluster could leave on this machine: those before it and after it, compared."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, fields
from pathlib import Path

from infra.cluster import cgroups, instance

_SETTINGS = ("net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
_FOLDERS = ("/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods", "/opt/containerd")


@dataclass(frozen=True, slots=True)
class Traces:
    """Of one cluster, as far as things bear its name; whatever else could change, of the whole machine."""

    processes: frozenset[str]
    mounts: frozenset[str]
    interfaces: frozenset[str]
    routes: frozenset[str]
    rules: frozenset[str]
    groups: frozenset[str]
    namespaces: frozenset[str]
    settings: frozenset[str]
    folders: frozenset[str]
    files: frozenset[str]

    def beyond(self, other: Traces) -> dict[str, frozenset[str]]:
        """What is here and not there, by kind."""
        more = {each.name: getattr(self, each.name) - getattr(other, each.name) for each in fields(self)}
        return {kind: found for kind, found in more.items() if found}


def seen(name: str) -> Traces:
    """What there is now of the cluster of that name. Others on this machine may come and go meanwhile."""
    folder = instance.folder(name)
    return Traces(
        processes=frozenset(_processes(name)),
        mounts=frozenset(line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line),
        interfaces=frozenset(_lines("ip", "-o", "link", mentioning=instance.interface(name))),
        routes=frozenset(_lines("ip", "route", mentioning=instance.interface(name))),
        rules=frozenset(line for mark in ("KUBE-", "CNI-") for line in _lines("iptables-save", mentioning=mark)),
        groups=frozenset(at for at, _, _ in os.walk("/sys/fs/cgroup") if f"{cgroups.root(name)}/" in f"{at}/"),
        namespaces=frozenset(_lines("ip", "netns", "list")),
        settings=frozenset(f"{each} {(Path('/proc/sys') / each).read_text().strip()}" for each in _SETTINGS),
        folders=frozenset(each for each in _FOLDERS if Path(each).exists()),
        files=frozenset(each.name for each in folder.glob("*") if each.name != "logs"),
    )


def _processes(name: str) -> set[str]:
    """Members of its cgroups, and whoever names its folder in its command line."""
    folder, found = str(instance.folder(name)), set[str]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            member = re.search(rf"{cgroups.root(name)}(/|$)", (process / "cgroup").read_text(), re.MULTILINE)
        except OSError:
            continue
        # One without words has ended, and waits for the machine's first process to take note.
        if words and (member or f"{folder}/" in words):
            found.add(f"{process.name} {words}")
    return found


def _lines(*command: str, mentioning: str = "") -> list[str]:
    said = subprocess.run(command, capture_output=True, text=True).stdout
    # Counters of rules are not what one looks for.
    return [re.sub(r"\[\d+:\d+\]", "", line) for line in said.splitlines() if mentioning in line]
