"""Authorities as people make them: by `openssl req -x509`, by older tools, by hand; and some that nobody may trust.

trustme makes them by the book, with all that RFC 5280 asks for, so that it hides what real ones lack.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
_SIGNS = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
_SIGNS_NO_CERTIFICATE = x509.KeyUsage(True, False, False, False, False, False, False, False, False)


@dataclass(frozen=True)
class Issued:
    """A certificate and its key.

    Attributes:
        chain: what a server shows beside its certificate.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)
    chain: bytes = b""

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def shown(self) -> bytes:
        return self.pem + self.chain

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    def serving(self) -> ssl.SSLContext:
        """A server's side."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with TemporaryDirectory() as scratch:
            file = Path(scratch, "server.pem")
            file.write_bytes(self.shown + self.key_pem)
            context.load_cert_chain(file)
        return context


@dataclass(frozen=True)
class Shape:
    """What a CA says of itself.

    Attributes:
        identifiers: whether it and what it issues bear key identifiers.
        usage: None: it has no keyUsage.
        is_ca: None: it has no basicConstraints.
    """

    identifiers: bool = True
    usage: x509.KeyUsage | None = None
    is_ca: bool | None = True
    critical: bool = True
    expired: bool = False


class Authority:
    """A CA of some shape.

    Attributes:
        itself: its own certificate.
    """

    def __init__(self, shape: Shape, name: str = "tests", above: Authority | None = None) -> None:
        self.shape = shape
        self._above = above
        self.itself = _made(name, (), self, above or self, shape)

    @property
    def pem(self) -> bytes:
        return self.itself.pem

    def issue(self, *hosts: str, name: str = "", organization: str = "", expired: bool = False) -> Issued:
        """For these names and addresses; without any it is a client's."""
        shape = Shape(identifiers=self.shape.identifiers, is_ca=None, expired=expired)
        chain = self.pem if self._above is not None else b""
        issued = _made(name or hosts[0], hosts, None, self, shape, organization)
        return Issued(issued.certificate, issued.key, chain)


def as_openssl_makes_it() -> Authority:
    """`openssl req -x509`: without keyUsage."""
    return Authority(Shape())


def without_identifiers() -> Authority:
    """Neither keyUsage nor key identifiers, and basicConstraints not critical: as older tools have it."""
    return Authority(Shape(identifiers=False, critical=False))


def by_the_book() -> Authority:
    return Authority(Shape(usage=_SIGNS))


@dataclass(frozen=True)
class Trust:
    """What a client is told to trust, and what the server shows."""

    authorities: bytes
    server: Issued


HERE = ("127.0.0.1", "localhost")


def _issued_by(authority: Authority) -> Trust:
    return Trust(authority.pem, authority.issue(*HERE))


def _intermediate() -> Trust:
    """The pool holds the intermediate only."""
    return _issued_by(Authority(Shape(), "between", above=as_openssl_makes_it()))


def _server_itself() -> Trust:
    """The pool holds the server's certificate, and not who issued it."""
    server = as_openssl_makes_it().issue(*HERE)
    return Trust(server.pem, server)


def _self_signed() -> Trust:
    server = _made("localhost", HERE, None, None, Shape(is_ca=False))
    return Trust(server.pem, server)


def _spoilt_bundle() -> Trust:
    """Beside what can't be read, and remarks in any language."""
    good = _issued_by(as_openssl_makes_it())
    bad = b"-----BEGIN CERTIFICATE-----\nMIIBAAAA\n-----END CERTIFICATE-----\n"
    return Trust("# unsere Zertifizierungsstelle, für alle\n".encode() + bad + good.authorities, good.server)


def _unknown() -> Trust:
    return Trust(as_openssl_makes_it().pem, as_openssl_makes_it().issue(*HERE))


def _no_authority(shape: Shape) -> Callable[[], Trust]:
    return lambda: _issued_by(Authority(shape))


def _expired() -> Trust:
    authority = as_openssl_makes_it()
    return Trust(authority.pem, authority.issue(*HERE, expired=True))


def _elsewhere() -> Trust:
    authority = as_openssl_makes_it()
    return Trust(authority.pem, authority.issue("other.example"))


# Each was put to Go's x509.Certificate.Verify, which takes and refuses the same.
TAKEN: dict[str, Callable[[], Trust]] = {
    "as openssl makes it": lambda: _issued_by(as_openssl_makes_it()),
    "without key identifiers": lambda: _issued_by(without_identifiers()),
    "by the book": lambda: _issued_by(by_the_book()),
    "an intermediate": _intermediate,
    "the server's own": _server_itself,
    "self-signed": _self_signed,
    "beside a broken one": _spoilt_bundle,
}
REFUSED: dict[str, Callable[[], Trust]] = {
    "another authority": _unknown,
    "one that says it is none": _no_authority(Shape(is_ca=False)),
    "one that does not say it is one": _no_authority(Shape(is_ca=None)),
    "one that may not sign": _no_authority(Shape(usage=_SIGNS_NO_CERTIFICATE)),
    "an expired authority": _no_authority(Shape(expired=True)),
    "an expired certificate": _expired,
    "another host's": _elsewhere,
}


def _made(
    name: str, hosts: tuple[str, ...], own: Authority | None, by: Authority | None, shape: Shape, organization: str = ""
) -> Issued:
    """By itself where `by` is None or the authority that is just being made."""
    key = ec.generate_private_key(ec.SECP256R1())
    alone = by is None or by is own
    signer = key if alone or by is None else by.itself.key
    subject = _name(name, organization)
    now = datetime.now(UTC)
    begin = now - 30 * DAY if shape.expired else now - DAY
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if alone or by is None else by.itself.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + 10 * DAY)
    )
    for extension, critical in _extensions(hosts, shape, key, signer):
        builder = builder.add_extension(extension, critical)
    return Issued(builder.sign(signer, hashes.SHA256()), key)


def _extensions(
    hosts: tuple[str, ...], shape: Shape, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> list[tuple[x509.ExtensionType, bool]]:
    found: list[tuple[x509.ExtensionType, bool]] = []
    if shape.is_ca is not None:
        found.append((x509.BasicConstraints(ca=shape.is_ca, path_length=None), shape.critical))
    if shape.usage is not None:
        found.append((shape.usage, True))
    if hosts:
        found.append((x509.SubjectAlternativeName([_alternative(host) for host in hosts]), False))
    if shape.identifiers:
        found.append((x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False))
        found.append((x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False))
    return found


def _name(common: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
