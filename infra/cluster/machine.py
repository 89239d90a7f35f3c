"""The needs of a cluster on this machine: root, Linux's namespaces and cgroups, and programs of Debian packages.

The module knows apt, and nothing of what is started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.cache import say
from infra.cluster.instance import FOLDER, Problem

# Where Debian puts them, whatever PATH says.
CNI = Path("/usr/lib/cni")
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Program by the Debian package that has it. unshare and nsenter are everywhere.
PACKAGES: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "mount": "mount",
    "openssl": "openssl",
    str(CNI / "ptp"): "containernetworking-plugins",
}
# A socket's path has 107 characters at most; containerd makes <folder>/<name>/containerd.sock.ttrpc.
_LONGEST_FOLDER = 107 - len("/containerd.sock.ttrpc") - 13
BUSYBOX = "busybox-static"
APART = ("unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child", "--mount-proc")
# In the node these are its own, and empty: what is written there is gone with it.
OWN = (Path("/run"), Path("/var/lib"), Path("/var/log"))


def prepare() -> None:
    """Have everything that is needed; Debian packages are installed where one is missing.

    Raises:
        Problem: that can't be had here; says what is missing.
    """
    if missing() and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        _install()
    if reason := why_not():
        raise Problem(reason)


def why_not() -> str:
    """The reason for which no cluster can run here as things are; empty when one can."""
    if sys.platform != "linux":
        return "a node is Linux; elsewhere use `task kind:up`, in a container engine"
    if os.geteuid() != 0:
        return (
            "a node is root's, who may make namespaces and file systems; or use `task kind:up`, in a container engine"
        )
    if lacking := missing():
        return f"there is no {', '.join(lacking)}: the Debian packages {' '.join(_packages())} have it"
    if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
        return f"this machine (a container?) allows no namespaces: `{' '.join(APART)} true` fails"
    if len(str(FOLDER)) > _LONGEST_FOLDER:
        return f"{FOLDER} is too long a path for sockets: set XDG_CACHE_HOME to a shorter one"
    for place in (FOLDER, Path(__file__), Path(sys.executable)):
        if any(own in place.resolve().parents for own in OWN):
            return f"{place} is in a folder that the node has its own of: {', '.join(map(str, OWN))}; move it elsewhere"
    return ""


def program(name: str) -> str:
    """Its path.

    Raises:
        Problem: there is none.
    """
    found = shutil.which(name, path=_SEARCHED)
    if found is None:
        raise Problem(f"there is no {name}: the Debian package {PACKAGES.get(name, name)} has it")
    return found


def busybox() -> Path:
    """A busybox that needs no libraries."""
    listed = subprocess.run(["dpkg", "-L", BUSYBOX], capture_output=True, text=True).stdout.split()
    found = [Path(each) for each in listed if each.endswith("/bin/busybox") and Path(each).is_file()]
    if not found:
        raise Problem(f"there is no busybox without libraries: the Debian package {BUSYBOX} has it")
    return found[0]


def missing() -> Sequence[str]:
    """Programs that are not here."""
    lacking = [program for program in PACKAGES if shutil.which(program, path=_SEARCHED) is None]
    if subprocess.run(["dpkg", "-s", BUSYBOX], capture_output=True).returncode != 0:
        lacking.append(BUSYBOX)
    return lacking


def _packages() -> Sequence[str]:
    return sorted({PACKAGES.get(program, program) for program in missing()})


def _install() -> None:
    packages = _packages()
    say(f"installing {' '.join(packages)}; a minute, once per machine")
    # Another apt, as a new machine runs at its start, is waited for.
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    for words in (["update"], ["install", "--no-install-recommends", *packages]):
        done = subprocess.run([*apt, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Problem(f"`apt-get {' '.join(words)}` ended with {done.returncode}:\n{done.stdout[-2000:]}")
