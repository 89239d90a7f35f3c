"""A security document, mounted as the kubelet mounts a ConfigMap, for functions that are not in a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.core.security.document import KEY, SecurityDocument
from headrace.core.security.flags import DefaultMode
from headrace.core.security.issuer import Issuer


class Mounted:
    """The mount of one place; each edit is a revision more."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.document = SecurityDocument()
        directory.mkdir(parents=True, exist_ok=True)

    def trust(self, issuer: Issuer) -> None:
        """Ask for tokens of this issuer; whoever has one may send."""
        found = replace(self.document, issuer=issuer.url, keys=issuer.keys, algorithms=issuer.algorithms)
        self._write(replace(found, flags=replace(found.flags, oidc=True, default_mode=DefaultMode.ALLOW_ALL)))

    def police(self, channels: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Have these parts for channels, as `NAMESPACE/NAME`; None: no policy applies."""
        parts = {**self.document.channels, **channels}
        self._write(replace(self.document, channels={name: part for name, part in parts.items() if part is not None}))

    def flag(self, **flags: Any) -> None:
        """Set these flags, and leave the others."""
        self._write(replace(self.document, flags=replace(self.document.flags, **flags)))

    def bundle(self, trust: str) -> None:
        """Have this trust bundle."""
        self._write(replace(self.document, trust=trust))

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
