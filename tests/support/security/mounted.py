"""A security document, mounted as the kubelet mounts a ConfigMap, for functions that are not in a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headrace.core.security.document import KEY, SecurityDocument
from headrace.core.security.issuer import Issuer


class Mounted:
    """The mount of one place; each edit is a revision more."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.document = SecurityDocument()
        directory.mkdir(parents=True, exist_ok=True)

    def trust(self, issuer: Issuer) -> None:
        """Ask for tokens of this issuer."""
        found = replace(self.document, issuer=issuer.url, keys=issuer.keys, algorithms=issuer.algorithms)
        self._write(replace(found, flags=replace(found.flags, oidc=True)))

    def ask_for_nothing(self) -> None:
        self._write(SecurityDocument(self.document.revision))

    def _write(self, document: SecurityDocument) -> None:
        self.document = replace(document, revision=self.document.revision + 1)
        folder = self.directory / f"..{self.document.revision}"
        folder.mkdir()
        (folder / KEY).write_bytes(self.document.to_json())
        (self.directory / "..new").symlink_to(folder.name)
        (self.directory / "..new").rename(self.directory / "..data")
        if not (link := self.directory / KEY).is_symlink():
            link.symlink_to(f"..data/{KEY}")
