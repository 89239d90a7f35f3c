"""Directories as Kubernetes mounts Secrets and ConfigMaps: all files change at once, with one link."""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Mapping
from pathlib import Path

import trustme

from headrace.core.security.document import KEY, SecurityDocument
from headrace.core.security.flags import Flags, TransportEncryption

_NUMBERS = itertools.count(1)


def swap(directory: Path, files: Mapping[str, bytes]) -> None:
    """Put these files in the place of all others."""
    place = directory / f"..{next(_NUMBERS)}"
    place.mkdir(parents=True)
    for name, data in files.items():
        (place / name).write_bytes(data)
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(Path("..data") / name)
    new = directory / "..data_tmp"
    new.symlink_to(place.name)
    new.rename(directory / "..data")


def certify(directory: Path, authority: trustme.CA, *names: str) -> None:
    """Mount a new certificate, as cert-manager has it in a Secret."""
    issued = authority.issue_cert(*(names or ("localhost", "127.0.0.1")))
    shown = b"".join(one.bytes() for one in issued.cert_chain_pems)
    files = {"tls.crt": shown, "tls.key": issued.private_key_pem.bytes(), "ca.crt": authority.cert_pem.bytes()}
    swap(directory, files)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def encrypt(directory: Path, mode: TransportEncryption) -> None:
    """Mount a security document that asks for this mode."""
    document = SecurityDocument(revision=next(_NUMBERS), flags=Flags(transport_encryption=mode))
    swap(directory, {KEY: document.to_json()})
