"""How `headrace up` says that it is there: a small file for each that runs, locked for as long as it does.

Knows files and locks, neither NATS nor processes. Written by `headrace_cli.laptop.up`, read by
`headrace_cli.access.place`. The lock tells a running one from one that was killed, whoever has its pid by now.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace_cli.access.bulletin import Bulletin, BulletinWriter, file_of, newest

SUFFIX = ".json"
_USERINFO = re.compile(r"//[^/@,]*@")


@dataclass(frozen=True, slots=True)
class Announcement:
    """One `headrace up` that runs.

    Attributes:
        nats: URL of its NATS server, without credentials.
        listen: URL of its receiver; a channel's path goes behind it.
    """

    pid: int
    nats: str
    listen: str

    def bulletin(self) -> Bulletin:
        """The state of its channels, as it has written it."""
        return newest(file_of(_path(self.pid)))


def directory() -> Path:
    """The directory of the files: only this user's, and gone with the session where the system has such a place."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "headrace" if runtime else Path(tempfile.gettempdir()) / f"headrace-up-{os.getuid()}"


@contextmanager
def announce(nats: str, listen: str) -> Iterator[BulletinWriter]:
    """Announce the `headrace up` of this process for as long as the block lasts, without the credentials of the URL.

    The block gets the writer of its bulletin.

    A place that can't be written costs the convenience only: the verbs then want `--nats`.
    """
    path = _path(os.getpid())
    lock = _write_locked(path, json.dumps({"pid": os.getpid(), "nats": without_credentials(nats), "listen": listen}))
    try:
        yield BulletinWriter(None if lock is None else file_of(path))
    finally:
        if lock is not None:
            path.unlink(missing_ok=True)
            file_of(path).unlink(missing_ok=True)
            os.close(lock)


def running() -> list[Announcement]:
    """Every running `headrace up` of this user, the youngest last; the files of killed ones are removed."""
    place = directory()
    if not _ours(place):
        return []
    found = []
    for path in sorted(place.glob(f"*{SUFFIX}"), key=_age):
        with suppress(OSError, ValueError, KeyError, TypeError), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                body = json.load(file)
                found.append(Announcement(int(body["pid"]), str(body["nats"]), str(body["listen"])))
                continue
            path.unlink(missing_ok=True)
            file_of(path).unlink(missing_ok=True)
    return found


def without_credentials(url: str) -> str:
    """The URL, or the list of URLs, in a form that may be shown."""
    return _USERINFO.sub("//", url)


def _path(pid: int) -> Path:
    return directory() / f"{pid}{SUFFIX}"


def _write_locked(path: Path, text: str) -> int | None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _ours(path.parent):
            return None
        # The file is written and locked under another name first: a reader must not find it without its lock.
        beside = path.with_suffix(".new")
        lock = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(lock, text.encode())
        beside.replace(path)
    except OSError:
        os.close(lock)
        return None
    return lock


def _ours(place: Path) -> bool:
    """Is the directory ours? In one that others can write, the address in a file may be anybody's."""
    with suppress(OSError):
        about = place.lstat()
        return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
    return False


def _age(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def the_one() -> Announcement | None:
    """The `headrace up` that runs; None when none does.

    Raises:
        Misconfigured: several run, and nobody has said which one is meant.
    """
    found = running()
    if len(found) > 1:
        named = ", ".join(f"--nats {each.nats} (pid {each.pid}, {each.listen})" for each in found)
        raise Misconfigured(f"{len(found)} headrace up are running: say which, by {named}", field="--nats")
    return found[0] if found else None
