"""ConfigMaps and Secrets as mounted directories, and the last good value that was read from them.

People edit them while we run, and make mistakes: the last good value then stays in force, and the log names each
mistake once. The module knows how Kubernetes changes all files of a directory at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from headrace.core.errors import Misconfigured
from headrace.io.process import log

# Kubernetes keeps all files of a mount in the directory behind this link, and swaps the link.
_SWAPPED = "..data"
# A swap may come between our look at the link and our reading.
_TRIES = 3

Value = TypeVar("Value")
_log = log.get("settings")


def texts(directory: str, names: Collection[str], *, longest: int) -> dict[str, str]:
    """The texts of the files that exist under these names, all of one moment, without white space around.

    Raises:
        Misconfigured: a file can't be read, is no text or is too long.
    """
    swapped = Path(directory, _SWAPPED)
    for _ in range(_TRIES):
        whence = swapped.resolve() if swapped.is_symlink() else Path(directory)
        found = {name: text for name in names if (text := _text(whence / name, longest)) is not None}
        if not swapped.is_symlink() or swapped.resolve() == whence:
            return found
    raise Misconfigured(f"{directory} changes faster than it can be read", field=directory)


def _text(path: Path, longest: int) -> str | None:
    try:
        if path.stat().st_size > longest:
            raise Misconfigured(f"{path} has more than {longest} bytes: mount what belongs there", field=str(path))
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Misconfigured(f"{path} can't be read: {error.strerror}", field=str(path)) from error
    except UnicodeDecodeError:
        # The error's text would tell a byte of a secret.
        raise Misconfigured(f"{path} holds bytes that are not UTF-8: store it as text", field=str(path)) from None


def directories(root: str, names: Collection[str]) -> list[str]:
    """The directories of these names that exist, in the order of `names`, and the root itself as the last."""
    return [path for path in (*(os.path.join(root, name) for name in names), root) if os.path.isdir(path)]


@dataclass(frozen=True, slots=True)
class Reading(Generic[Value]):
    """The value in force; `problem` says why the last reading failed, and is empty when it did not."""

    value: Value
    problem: str = ""


class LastGood(Generic[Value]):
    """Reads again at each call of `now`, and keeps the last value that could be read; `read` raises Misconfigured."""

    def __init__(self, read: Callable[[], Value]) -> None:
        self._read = read
        self._good: Reading[Value] | None = None
        self._problem = ""

    def now(self) -> Reading[Value]:
        """Raises:
        Misconfigured: the value can't be read, and never could.
        """
        try:
            self._good = Reading(self._read())
        except Exception as error:  # the caller goes on connecting, whatever people mount
            problem = error if isinstance(error, Misconfigured) else _unforeseen(error)
            if self._good is None:
                raise problem from error
            if str(problem) != self._problem:
                self._problem = str(problem)
                _log.warning("what is mounted can't be used, the last good one still counts", error=str(problem))
            return Reading(self._good.value, str(problem))
        if self._problem:
            self._problem = ""
            _log.info("what is mounted can be used again")
        return self._good


def _unforeseen(error: Exception) -> Misconfigured:
    # The error's text may hold a secret.
    problem = f"what is mounted can't be read ({type(error).__name__}): look for what is unusual in it"
    return Misconfigured(problem, field="settings")
