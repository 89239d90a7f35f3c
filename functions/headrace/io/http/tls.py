"""The verification of servers: by the system's authorities, trust bundles, and the destination's own certificates."""

from __future__ import annotations

import ssl
from contextlib import suppress
from functools import lru_cache

from headrace.core import trust
from headrace.core.errors import InvalidSpec
from headrace.io.process import tls
from headrace.io.process.tls import Stamp

# Loading the system's authorities takes some 20 ms; a set of functions meets few other authorities.
_REMEMBERED = 64


class TlsContexts:
    """One context per set of CA certificates, made at first use and again when the system's authorities change."""

    def __init__(self) -> None:
        self._made = lru_cache(_REMEMBERED)(_context)

    def context(self, ca_certs: str | None, bundles: str = "") -> ssl.SSLContext:
        """Args:
            ca_certs: the destination's, PEM.
            bundles: those of every destination, PEM; what of them can't be read is passed over.

        Raises:
            InvalidSpec: the destination's certificates can't be read.
        """
        return self._made(ca_certs, bundles, tls.system_stamps())


def _context(ca_certs: str | None, bundles: str, _of: tuple[Stamp, ...]) -> ssl.SSLContext:
    """A context that demands a certificate for the host, from an authority of the system, or one of these."""
    try:
        context = tls.of_system(ca_certs or "")
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSpec(
            f"CACerts can't be read ({error}): give certificates in PEM form, each from BEGIN to END",
            field="CACerts",
        ) from error
    with suppress(ssl.SSLError, ValueError):
        trust.add(context, bundles)
    context.set_alpn_protocols(["http/1.1"])
    return context
