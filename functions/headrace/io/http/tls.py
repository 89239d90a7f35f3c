"""How servers are verified: by what the system trusts, and by the CA certificates of the destination."""

from __future__ import annotations

import ssl
from functools import lru_cache

from headrace.core.errors import InvalidSpec
from headrace.io.process import tls
from headrace.io.process.tls import Stamp

# Loading what the system trusts takes some 20 ms; a set of functions serves few authorities.
_REMEMBERED = 64


class TlsContexts:
    """One context per set of CA certificates, made at first use, and anew when the system trusts others."""

    def __init__(self) -> None:
        self._made = lru_cache(_REMEMBERED)(_context)

    def context(self, ca_certs: str | None) -> ssl.SSLContext:
        """Raises:
        InvalidSpec: the certificates can't be read.
        """
        return self._made(ca_certs, tls.system_stamps())


def _context(ca_certs: str | None, _of: tuple[Stamp, ...]) -> ssl.SSLContext:
    """Demands a certificate that names the host, from an authority of the system's or one of `ca_certs` (PEM)."""
    try:
        context = tls.of_system(ca_certs or "")
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSpec(
            f"CACerts can't be read ({error}): give certificates in PEM form, each from BEGIN to END",
            field="CACerts",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context
