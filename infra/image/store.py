"""buildah with a store of its own, apart from whatever images the user has, and with nothing left behind.

Each command runs in namespaces of its own: the kernel takes back mounts and processes when it ends, even by SIGKILL,
and when this process is killed. The next `Store` removes from disk what it has half done. One at a time has the store.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from infra.cache import CACHE, locked
from infra.image.machine import APART

FOLDER = CACHE / "image"
_OF_PROCESS = "of-"
_PR_SET_PDEATHSIG = 1
# The user's own settings of containers and of buildah are not ours.
_LEFT_OUT = ("BUILDAH_", "CONTAINERS_", "STORAGE_", "REGISTRY_", "XDG_", "TMPDIR")


class Failed(Exception):
    """A command failed; says which, and what it said unless that was shown already."""


class Store:
    """Use it as a context manager; blocking methods."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._root, self._run, self.scratch = folder / "store", folder / "run", folder / "scratch"
        self._driver = "vfs"
        self._stack = ExitStack()

    def __enter__(self) -> Store:
        self._stack.enter_context(locked(self._folder / "lock"))
        self._clear()
        for folder in (self._root, self._run, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        Path(self.registries).write_text("unqualified-search-registries = []\n")
        (self._folder / "pulls.conf").write_text('unqualified-search-registries = ["docker.io"]\n')
        self._driver = self._possible_driver()
        # Of a build that was killed.
        if self.said("containers", "--quiet"):
            self.said("rm", "--all")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        self._stack.close()

    def said(self, *words: str) -> str:
        """What a quick command of buildah writes.

        Raises:
            Failed: it failed.
        """
        done = subprocess.run(
            self._words(words), capture_output=True, text=True, env=self._environment(), preexec_fn=_die_with_the_parent
        )
        if done.returncode != 0:
            raise Failed(f"`buildah {shlex.join(words)}` ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout.strip()

    def show(self, *words: str) -> None:
        """A command of buildah that takes longer; all that it writes goes to standard error.

        Raises:
            Failed: it failed.
        """
        done = subprocess.run(
            self._words(words), stdout=sys.stderr, env=self._environment(), preexec_fn=_die_with_the_parent
        )
        if done.returncode != 0:
            raise Failed(f"`buildah {words[0]}` ended with {done.returncode}")

    def unpack(self, image: str, target: Path) -> None:
        """Write the files of an image to a folder, which is there, as a container sees them: owners, modes, links.

        Raises:
            Failed: they could not be read.
        """
        # In one namespace: what is mounted in one is nowhere else.
        script = 'c=$("$@" from --pull-never "$0") && m=$("$@" mount "$c") && cp -a "$m/." "$TARGET" && "$@" rm "$c"'
        buildah = ["buildah", *self._where]
        command = [*self._apart, "sh", "-c", script, image, *buildah]
        around = {**self._environment(), "TARGET": str(target)}
        done = subprocess.run(command, capture_output=True, text=True, env=around, preexec_fn=_die_with_the_parent)
        if done.returncode != 0:
            raise Failed(f"{image} can't be unpacked: {done.stderr[-2000:]}")

    def has(self, image: str) -> bool:
        """Is there an image of that name?"""
        return bool(self.said("images", "--quiet", "--filter", f"reference={image}"))

    @contextmanager
    def folder_for_a_while(self) -> Iterator[str]:
        """A folder that stays when the store is left, until the end of the block. If this process is killed before, the
        next store removes it."""
        with tempfile.TemporaryDirectory(prefix=f"{_OF_PROCESS}{os.getpid()}-", dir=self._folder) as folder:
            # Others than root look into it.
            Path(folder).chmod(0o755)
            yield folder

    @property
    def registries(self) -> str:
        """The file that says where a name without a host is looked for, as the engines do it everywhere."""
        return str(self._folder / "registries.conf")

    @property
    def registries_of_pulls(self) -> str:
        """The same where the real base is pulled; CONTAINERS_REGISTRIES_CONF may name a mirror."""
        return os.environ.get("CONTAINERS_REGISTRIES_CONF") or str(self._folder / "pulls.conf")

    def _possible_driver(self) -> str:
        """Overlay, unless the cache is on a file system that can't carry it, as a container's own."""
        self._driver = "overlay"
        try:
            self.said("info")
        except Failed:
            return "vfs"
        return self._driver

    def _words(self, words: Sequence[str]) -> list[str]:
        return [*self._apart, "buildah", *self._where, *words]

    @property
    def _where(self) -> list[str]:
        return ["--root", f"{self._root}", "--runroot", f"{self._run}", "--storage-driver", self._driver]

    @property
    def _apart(self) -> list[str]:
        # What is mounted now is noted there, and ends with the namespace.
        script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
        return [*APART, "sh", "-c", script, str(self._run)]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
        return {**kept, "HOME": str(self._folder), "TMPDIR": str(self.scratch)}

    def _clear(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        for folder in self._folder.glob(f"{_OF_PROCESS}*"):
            if not Path("/proc", folder.name.split("-")[1]).is_dir():
                shutil.rmtree(folder, ignore_errors=True)


def apart(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
    """Another program in namespaces of its own, in the same way.

    Raises:
        Failed: it failed.
    """
    around = {**os.environ, **(environment or {})}
    done = subprocess.run([*APART, *command], stdout=sys.stderr, env=around, preexec_fn=_die_with_the_parent)
    if done.returncode != 0:
        raise Failed(f"`{command[0]}` ended with {done.returncode}")


def _die_with_the_parent() -> None:
    """In the child, before it becomes the program: also when this process is killed, and no clean-up runs."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
