"""How servers are verified: by what the system trusts, and by the CA certificates of the destination."""

from __future__ import annotations

import ssl
from functools import lru_cache

from headrace.core.errors import InvalidSpec

# Loading what the system trusts takes some 20 ms; a set of functions serves few authorities.
_REMEMBERED = 64


class TlsContexts:
    """One context per set of CA certificates, made at first use."""

    def __init__(self) -> None:
        self.context = lru_cache(_REMEMBERED)(_context)


def _context(ca_certs: str | None) -> ssl.SSLContext:
    """Demands a certificate that names the host, from an authority of the system's or one of `ca_certs` (PEM).

    Raises:
        InvalidSpec: the certificates can't be read.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_certs:
        try:
            context.load_verify_locations(cadata=ca_certs)
        except (ssl.SSLError, ValueError) as error:
            raise InvalidSpec(
                f"CACerts can't be read ({error}): give certificates in PEM form, each from BEGIN to END",
                field="CACerts",
            ) from error
    return context
