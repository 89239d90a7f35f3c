"""What the ConfigMap of a namespace names, as its pods see it: which Secrets, and which of them are missing.

Names only: a body of a Secret is never here. `headrace.io.named` reads it; one `reconcile` may tell it another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.core.secret_files import SecretFile


@dataclass(frozen=True, slots=True)
class Named:
    """One look.

    Attributes:
        secrets: to be mounted.
        missing: of those the ones that have to be there and are not.
        config_map: its name, for messages.
        problem: why what is mounted is not what counts; empty when it is.
    """

    secrets: tuple[SecretFile, ...] = ()
    missing: tuple[SecretFile, ...] = ()
    config_map: str = ""
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it is told."""
        return asdict(self)


def from_json(body: Mapping[str, Any]) -> Named:
    """The inverse of `Named.to_json`; ValueError, KeyError or TypeError for what is none."""
    return Named(
        tuple(SecretFile(**one) for one in body["secrets"]),
        tuple(SecretFile(**one) for one in body["missing"]),
        str(body["config_map"]),
        str(body["problem"]),
    )
