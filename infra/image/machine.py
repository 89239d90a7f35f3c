"""The needs of building and starting the image on this machine: root, namespaces, and programs of Debian packages.

The module knows apt, and nothing of what is built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from infra.cache import say

# Program by the Debian package that has it. The keys of Debian releases newer than the machine's are in the last one.
PACKAGES: Mapping[str, str] = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "runc": "runc"}
_WITH_THEM = ("ca-certificates", "debian-archive-keyring", "golang-github-containers-common")
# A program behind these words has namespaces of its own: nobody else sees its mounts, and they go with it, as do its
# children, however it ends.
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")


class NotHere(Exception):
    """The image can't be built on this machine; says why, and what to do."""


def missing() -> Sequence[str]:
    """Programs that are not on PATH."""
    return [program for program in PACKAGES if shutil.which(program) is None]


def why_not() -> str:
    """The reason for which nothing can be built here as things are; empty when it can."""
    if sys.platform != "linux":
        return "it is built on Linux only; elsewhere take podman or docker, as docs/install.md says"
    if os.geteuid() != 0:
        return "it is built by root, who may make file systems; or take podman or docker, as docs/install.md says"
    if lacking := missing():
        return f"there is no {', '.join(lacking)}: `task image` installs it on Debian"
    if subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
        return f"this machine (a container?) allows no namespaces: `{' '.join(APART)} true` fails"
    return ""


def prepare() -> None:
    """Have everything that is needed; Debian packages are installed where one is missing.

    Raises:
        NotHere: that does not help.
    """
    if missing() and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        _install()
    if reason := why_not():
        raise NotHere(reason)


def _install() -> None:
    packages = sorted({*(PACKAGES[program] for program in missing()), *_WITH_THEM})
    say(f"installing {' '.join(packages)}; a minute, once per machine")
    # Another apt, as a new machine runs at its start, is waited for.
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--no-install-recommends", *packages]):
        done = subprocess.run(
            [*apt, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode != 0:
            raise NotHere(f"`apt-get {' '.join(words)}` ended with {done.returncode}:\n{done.stdout[-2000:]}")
