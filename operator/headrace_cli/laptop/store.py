"""The directory in which events are kept: it is locked while it is used, and a temporary one is removed at the end.

This module knows directories and locks, and no NATS. `headrace_cli.laptop.up` uses it when no `--nats` is given.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from headrace.core.errors import Misconfigured
from headrace.io.process import log

PREFIX = "headrace-"
LOCK = "headrace.lock"
# We may remove a directory that holds this file. It is written under the lock, and deleted when somebody names the
# directory with --data: then the directory is theirs.
MARK = "headrace.temporary"

_log = log.get("up")


@contextmanager
def open_store(named: Path | None) -> Iterator[Path]:
    """The directory for a store, for us alone.

    Args:
        named: the directory, created if need be. None: a temporary one, after those of killed runs are removed.

    Raises:
        Misconfigured: the directory can't be used, or another `headrace up` uses it.
    """
    if named is not None:
        with _locked(named):
            (named / MARK).unlink(missing_ok=True)
            yield named
        return
    remove_leftovers(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory, _locked(Path(directory)):
        (Path(directory) / MARK).touch()
        words = "events are kept in a temporary directory until the end: name one to stay with --data"
        _log.info(words, data=directory)
        yield Path(directory)


def remove_leftovers(parent: Path) -> None:
    """Remove temporary stores whose `headrace up` was killed: ours by owner, name and mark, and used by nobody."""
    # On other systems a nats-server may outlive the process that held the lock.
    if sys.platform != "linux":
        return
    for directory in sorted(parent.glob(f"{PREFIX}*")):
        with suppress(OSError):
            _remove_leftover(directory)


def _remove_leftover(directory: Path) -> None:
    about = directory.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or not (directory / LOCK).is_file():
        return
    with (directory / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (directory / MARK).is_file():
            shutil.rmtree(directory)
            _log.info("removed the temporary events of a headrace up that was killed", data=str(directory))


@contextmanager
def _locked(directory: Path) -> Iterator[IO[str]]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("w")
    except OSError as error:
        raise Misconfigured(f"--data {directory} can't be used: {error}", field="--data") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Misconfigured(
                f"--data {directory} is in use by another headrace up: stop it, or give another directory",
                field="--data",
            ) from None
        yield lock
