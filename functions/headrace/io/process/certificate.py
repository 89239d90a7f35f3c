"""The certificate of a TLS server, from a mounted directory: a new one counts within a second, if it is a good one."""

from __future__ import annotations

import os
import ssl

from headrace.core import trust
from headrace.core.quoting import quoted
from headrace.io.process import log
from headrace.io.process.tls import Stamp, stamp

CERTIFICATE, KEY = "tls.crt", "tls.key"

_log = log.get("tls")


class Certificate:
    """The context of a server with the mounted certificate.

    Attributes:
        context: with the last good certificate; None: there has been none.
    """

    def __init__(self, directory: str, least_version: str = "1.3") -> None:
        self.context: ssl.SSLContext | None = None
        self._directory = directory
        self._least = ssl.TLSVersion.TLSv1_2 if least_version == "1.2" else ssl.TLSVersion.TLSv1_3
        self._loaded: tuple[Stamp, Stamp] = None, None
        self._problem = ""

    def look(self) -> None:
        """Load what is mounted, if it is not what was loaded last."""
        # The link is followed once, so that both files are of one moment.
        directory = os.path.realpath(os.path.join(self._directory, "..data"))
        if not os.path.isdir(directory):
            directory = self._directory
        files = os.path.join(directory, CERTIFICATE), os.path.join(directory, KEY)
        seen = stamp(files[0]), stamp(files[1])
        if seen == self._loaded or (None in seen and self.context is None):
            return
        try:
            self.context = trust.serving(*files, self._least)
        except (OSError, ValueError) as error:
            # Python's text names neither a byte of the key nor its password.
            self._complain(f"{self._directory}: {error}")
            return
        self._loaded, self._problem = seen, ""
        _log.info("certificate loaded")

    def _complain(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            kept = "the last good certificate still counts" if self.context else "nothing is served by TLS"
            _log.warning(f"the certificate can't be loaded, {kept}", error=quoted(problem, 500))
