"""How many connections this process has room for: by the files that it may have open, and by its memory."""

from __future__ import annotations

import math
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace.core.installation.function_settings import ConnectionSettings
from headrace.io.process import environment

# A connection with its kernel's and Python's parts, idle or about to send; measured 4 to 9 KiB.
CONNECTION_BYTES = 20 * 1024
# Where nothing else limits them.
MOST = 20_000
# Files that are no connections of clients: NATS, mounted files, libraries; `forward` has connections of its own.
LEAST_FILES = 64

_MEMORY = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def connections() -> int:
    """The most connections of clients at once: the setting's, or what limits of the system leave room for.

    Raises:
        Misconfigured: the setting asks for more than there may be files.
    """
    files, asked = _files(), environment.fill(ConnectionSettings).most
    if asked is None:
        return max(16, int(min(files - max(LEAST_FILES, files // 4), _memory() // CONNECTION_BYTES, MOST)))
    if asked > files - LEAST_FILES:
        raise Misconfigured(
            f"HEADRACE_MAX_CONNECTIONS is {asked}, but this process may have only {files} files open: give at most "
            f"{max(16, int(files) - LEAST_FILES)}, or raise its limit (ulimit -n)",
            field="HEADRACE_MAX_CONNECTIONS",
        )
    return asked


def _files() -> float:
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if limit == resource.RLIM_INFINITY else limit


def _memory() -> float:
    """The limit of the container; infinite where there is none."""
    for path in _MEMORY:
        try:
            return float(path.read_text(encoding="ascii"))
        except (OSError, ValueError):  # another version of cgroups, or "max"
            continue
    return math.inf
