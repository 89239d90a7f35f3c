"""The verification of servers: by the system's authorities, and by the CA certificates of the destination."""

from __future__ import annotations

import ssl
from functools import lru_cache

from headrace.core.errors import InvalidSpec
from headrace.io.process import tls
from headrace.io.process.tls import Stamp

# Loading the system's authorities takes some 20 ms; a set of functions meets few other authorities.
_REMEMBERED = 64


class TlsContexts:
    """One context per set of CA certificates, made at first use and again when the system's authorities change."""

    def __init__(self) -> None:
        self._made = lru_cache(_REMEMBERED)(_context)

    def context(self, ca_certs: str | None) -> ssl.SSLContext:
        """Raises:
        InvalidSpec: the certificates can't be read.
        """
        return self._made(ca_certs, tls.system_stamps())


def _context(ca_certs: str | None, _of: tuple[Stamp, ...]) -> ssl.SSLContext:
    """A context that demands a certificate for the host, from an authority of the system or of `ca_certs` (PEM)."""
    try:
        context = tls.of_system(ca_certs or "")
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSpec(
            f"CACerts can't be read ({error}): give certificates in PEM form, each from BEGIN to END",
            field="CACerts",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context
