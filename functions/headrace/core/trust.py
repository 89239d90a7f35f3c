"""Whose certificates our clients take: the one place that makes TLS contexts, for every program of ours.

Takes what Go's crypto/x509 takes, since every other program around us is written in Go: a CA that works for
kube-apiserver's clients, for Knative's data plane and for nats.go works here. Python's own defaults differ by version.
Knows PEM. Reads no file: where the system's CAs count, `headrace.io.process.tls` has OpenSSL load them into the
context.
"""

from __future__ import annotations

import re
import ssl

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

# Python's default contexts set this flag since 3.13: RFC 5280 to the letter. It refuses a CA without keyUsage, such as
# `openssl req -x509` makes, and certificates without key identifiers. Go asks for neither. The checks that matter for
# security stay: names, times, and that a CA says that it is one and is not forbidden to sign.
_TO_THE_LETTER = ssl.VERIFY_X509_STRICT
# Go ends a chain at any certificate of the pool, an intermediate and the server's own included; OpenSSL by itself only
# at a self-signed one. Python's default contexts set this flag since 3.13.
_ANY_END = ssl.VERIFY_X509_PARTIAL_CHAIN


def context(authorities: bytes | str = b"") -> ssl.SSLContext:
    """A client's context: the server's certificate must name the host and come from one of these authorities.

    Args:
        authorities: PEM, perhaps with other text between the blocks; empty: nobody is trusted yet.

    Raises:
        ssl.SSLError, ValueError: there is no readable certificate in it.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.verify_flags = (made.verify_flags | _ANY_END) & ~_TO_THE_LETTER
    if authorities:
        add(made, authorities)
    return made


def serving(certificate: str, key: str, least: ssl.TLSVersion) -> ssl.SSLContext:
    """A server's context, with the certificate of these files; it asks for none.

    Raises:
        OSError, ValueError: they can't be read, or do not belong together.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = least
    # A key with a password must not ask for it at a terminal.
    made.load_cert_chain(certificate, key, password=lambda: b"")
    made.set_alpn_protocols(["http/1.1"])
    return made


def is_readable(authorities: str) -> bool:
    """Is there a certificate in this PEM?"""
    try:
        context(authorities)
    except (ssl.SSLError, ValueError):
        return False
    return True


def add(to: ssl.SSLContext, authorities: bytes | str) -> None:
    """Trust these, too; raises as `context`."""
    text = authorities.encode(errors="surrogateescape") if isinstance(authorities, str) else authorities
    # Bundles hold remarks in any language, and Python refuses bytes beyond ASCII.
    found = [block.decode("ascii", "ignore") for block in _CERTIFICATE.findall(text)]
    if not found:
        raise ValueError("there is no certificate in it")
    try:
        to.load_verify_locations(cadata="\n".join(found))
    except (ssl.SSLError, ValueError):
        _add_the_good(to, found)


def _add_the_good(to: ssl.SSLContext, certificates: list[str]) -> None:
    """Trust the readable ones: as with Go, an unreadable certificate does not spoil those beside it."""
    failure: ssl.SSLError | ValueError | None = None
    good = 0
    for certificate in certificates:
        try:
            to.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError) as error:
            failure = error
        else:
            good += 1
    if failure is not None and not good:
        raise failure
