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

# Since Python 3.13 its default contexts set this: RFC 5280 to the letter. It refuses a CA without keyUsage, which is
# what `openssl req -x509` makes, and certificates without key identifiers. Go asks for neither. What is about security
# stays: names, times, and that a CA says that it is one and is not forbidden to sign.
_TO_THE_LETTER = ssl.VERIFY_X509_STRICT
# Go takes whatever certificate is in the pool as the end of the chain, an intermediate and a server's own included;
# OpenSSL by itself only a self-signed one. Python sets it since 3.13.
_ANY_END = ssl.VERIFY_X509_PARTIAL_CHAIN


def context(authorities: bytes | str = b"") -> ssl.SSLContext:
    """For a client: it demands a certificate of the server, that names the host and comes from one of these.

    Args:
        authorities: PEM, with whatever stands between; none: nobody is trusted yet.

    Raises:
        ssl.SSLError, ValueError: there is no certificate in it that could be read.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.verify_flags = (made.verify_flags | _ANY_END) & ~_TO_THE_LETTER
    if authorities:
        add(made, authorities)
    return made


def add(to: ssl.SSLContext, authorities: bytes | str) -> None:
    """Trust these, too; raises as `context`."""
    text = authorities.encode(errors="surrogateescape") if isinstance(authorities, str) else authorities
    # Bundles hold remarks in any language, and Python refuses what is not ASCII.
    found = [block.decode("ascii", "ignore") for block in _CERTIFICATE.findall(text)]
    if not found:
        raise ValueError("there is no certificate in it")
    try:
        to.load_verify_locations(cadata="\n".join(found))
    except (ssl.SSLError, ValueError):
        _add_the_good(to, found)


def _add_the_good(to: ssl.SSLContext, certificates: list[str]) -> None:
    """As Go reads a bundle: one that can't be read does not spoil those beside it."""
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
