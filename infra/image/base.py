"""The image that the Containerfile builds upon, made from Debian's packages, for machines that reach no image registry.

It is a stand-in under the same name, with the same release of Debian, the same minor version of Python, no byte code of
the standard library, `python` and `pip` in the same places. Its Python is Debian's build, unlike that of the real one.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import subprocess
import sys
import time
from pathlib import Path

from infra.cache import say
from infra.image.store import Failed, Store, apart

CONTAINERFILE = Path(__file__).resolve().parents[2] / "Containerfile"
# Debian's release by the Python that it comes with, which is also what the real image is made of.
RELEASES = {"3.13": "trixie"}
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
# What the real one has, too.
_BESIDE_PYTHON = ("ca-certificates", "netbase", "tzdata")


def wanted(containerfile: Path = CONTAINERFILE) -> tuple[str, str]:
    """The name that a Containerfile asks for, as images of this machine have it, and Python's version in it.

    Raises:
        Failed: it asks for something that can't be made here.
    """
    named = re.findall(r"^FROM (python:(\d+\.\d+)-slim)", containerfile.read_text(encoding="utf-8"), re.MULTILINE)
    if len(set(named)) != 1 or named[0][1] not in RELEASES:
        raise Failed(f"{containerfile} is built on {named}; what is made here: {RELEASES}")
    return f"localhost/{named[0][0]}", named[0][1]


def have(store: Store) -> str:
    """Its name, once the store has it; made if need be, a minute."""
    name, python = wanted()
    # Made by another recipe it is another one.
    recipe = hashlib.sha256(inspect.getsource(sys.modules[__name__]).encode()).hexdigest()[:12]
    known_as = f"localhost/headrace-base:{python}-{recipe}"
    if not store.has(known_as):
        _make(store, python, known_as)
    store.said("tag", known_as, name)
    return name


def _make(store: Store, python: str, name: str) -> None:
    began, archive = time.monotonic(), store.scratch / "base.tar"
    say(f"the base image: Python {python} of Debian {RELEASES[python]}, from packages; a minute, once per machine")
    packages = ",".join((f"python{python}", "python3-pip", *_BESIDE_PYTHON))
    words = ["mmdebstrap", "--variant=apt", f"--include={packages}", f"--customize-hook={_finish(python)}"]
    mirror = _mirror()
    environment = {"TMPDIR": str(store.scratch)}
    apart([*words, RELEASES[python], str(archive), *([mirror] if mirror else [])], environment=environment)
    container = store.said("from", "scratch")
    store.said("add", container, str(archive), "/")
    store.said("config", "--env", f"PATH={_PATH}", "--cmd", "python3", container)
    store.said("commit", "--quiet", "--rm", container, name)
    say(f"the base image: made in {time.monotonic() - began:.0f} s")


def _finish(python: str) -> str:
    """A command for the shell; `$1` is the root of the file system."""
    links = (f'ln -s /usr/bin/python{python} "$1/usr/local/bin/{name}"' for name in ("python", "python3"))
    return " && ".join(
        (
            *links,
            f'rm "$1/usr/lib/python{python}/EXTERNALLY-MANAGED"',
            # The real one has none, either, which costs each start (docs/image.md).
            'find "$1/usr" -name __pycache__ -prune -exec rm -r {} +',
        )
    )


def _mirror() -> str:
    """From where this machine has its own Debian packages; empty when it says nothing of that."""
    listed = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(listed, capture_output=True, text=True)
    found = re.findall(r"^Debian Debian (https?://\S+)", done.stdout, re.MULTILINE)
    return str(found[0]) if found else ""
