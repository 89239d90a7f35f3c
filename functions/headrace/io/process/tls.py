"""TLS contexts with what is on disk: the system's trust, our certificates; and the sign that a file has changed.

The contexts themselves are of `headrace.core.trust`. Used by whatever of ours opens a TLS connection, Spark's client
aside, which reads its files by itself.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path
from typing import TypeAlias

from headrace.core import trust

# Where nothing is, None; else what differs as soon as the file has been written or replaced.
Stamp: TypeAlias = tuple[int, int, int] | None


def of_system(authorities: bytes | str = b"") -> ssl.SSLContext:
    """Trusts what the system trusts, and these; SSL_CERT_FILE and SSL_CERT_DIR say where that is, if not as usual.

    Loading takes some 10 ms.

    Raises:
        ssl.SSLError, ValueError: of `authorities` none can be read.
    """
    made = trust.context(authorities)
    trusted = made.cert_store_stats()["x509"]
    made.load_default_certs()
    file = ssl.get_default_verify_paths().cafile
    if file and made.cert_store_stats()["x509"] == trusted:
        # OpenSSL takes none of a file in which one can't be read; Go takes the others.
        with contextlib.suppress(OSError, ValueError):
            trust.add(made, Path(file).read_bytes())
    return made


def system_stamps() -> tuple[Stamp, ...]:
    """Changes when what `of_system` loads does."""
    paths = ssl.get_default_verify_paths()
    return tuple(stamp(path) for path in (paths.cafile, paths.capath))


def stamp(path: str | None) -> Stamp:
    """Follows links, so that it sees how Kubernetes swaps what is mounted."""
    try:
        found = os.stat(path) if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found is not None else None


class SystemTrust:
    """The context of what the system trusts, made when it is first needed and anew when the system trusts others."""

    def __init__(self) -> None:
        self._made: tuple[tuple[Stamp, ...], ssl.SSLContext] | None = None

    def at(self, url: str) -> ssl.SSLContext | bool:
        """What aiohttp takes as `ssl`; for a URL without TLS nothing is loaded."""
        if not url.startswith("https:"):
            return True
        now = system_stamps()
        if self._made is None or self._made[0] != now:
            self._made = now, of_system()
        return self._made[1]
