"""TLS contexts from files: the system's trust, our certificates; and the stamp that shows when a file has changed.

`headrace.core.trust` makes the contexts. Every module that opens a TLS connection uses this one; only Spark's client
reads its files by itself.
"""

from __future__ import annotations

import contextlib
import os
import ssl
from pathlib import Path
from typing import TypeAlias

from headrace.core import trust

# It differs as soon as the file has been written or replaced; None where there is no file.
Stamp: TypeAlias = tuple[int, int, int] | None


def of_system(authorities: bytes | str = b"") -> ssl.SSLContext:
    """A context that trusts the system's authorities and these.

    SSL_CERT_FILE and SSL_CERT_DIR say where the system's are, if not at the usual place. Loading takes some 10 ms.

    Raises:
        ssl.SSLError, ValueError: none of `authorities` can be read.
    """
    made = trust.context(authorities)
    trusted = made.cert_store_stats()["x509"]
    made.load_default_certs()
    file = ssl.get_default_verify_paths().cafile
    if file and made.cert_store_stats()["x509"] == trusted:
        # OpenSSL drops a whole file for one certificate that can't be read; Go takes the others.
        with contextlib.suppress(OSError, ValueError):
            trust.add(made, Path(file).read_bytes())
    return made


def system_stamps() -> tuple[Stamp, ...]:
    """They change when the files that `of_system` loads change."""
    paths = ssl.get_default_verify_paths()
    return tuple(stamp(path) for path in (paths.cafile, paths.capath))


def stamp(path: str | None) -> Stamp:
    """The stamp of a file. It follows links, so that it sees when Kubernetes swaps a mount."""
    try:
        found = os.stat(path) if path else None
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if found is not None else None


class SystemTrust:
    """The context of the system's authorities, made at first use and again when those authorities change."""

    def __init__(self) -> None:
        self._made: tuple[tuple[Stamp, ...], ssl.SSLContext] | None = None

    def at(self, url: str) -> ssl.SSLContext | bool:
        """The value of aiohttp's `ssl`; for a URL without TLS nothing is loaded."""
        if not url.startswith("https:"):
            return True
        now = system_stamps()
        if self._made is None or self._made[0] != now:
            self._made = now, of_system()
        return self._made[1]
