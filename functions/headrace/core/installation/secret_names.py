"""The Secrets that a namespace's ConfigMap names, as its pods see them, and which of them are missing.

Names only: a body of a Secret is never here. `headrace.io.process.secret_names` reads them, and one `reconcile` may
tell them to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headrace.core.installation.secret_files import FILES, SecretFile

# No ConfigMap of ours can name as many.
MOST_SECRETS = 32
LONGEST_PROBLEM = 1024
_SECRET = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_KEY = re.compile(r"(?!\.\.?$)[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True)
class SecretNames:
    """The findings of one look at the ConfigMap.

    Attributes:
        secrets: the keys of Secrets to mount.
        missing: those of them that must exist and don't.
        config_map: its name, for messages.
        problem: why an earlier version of the mounted files counts; empty when the present one does.
    """

    secrets: tuple[SecretFile, ...] = ()
    missing: tuple[SecretFile, ...] = ()
    config_map: str = ""
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(body: Mapping[str, Any]) -> SecretNames:
    """The inverse of `SecretNames.to_json`; ValueError, KeyError or TypeError for any other JSON.

    Anybody in a channel's namespace may send it, and it ends up in pods and statuses there, so each part is checked.
    """
    return SecretNames(
        _secret_files(body["secrets"]),
        _secret_files(body["missing"]),
        str(body["config_map"])[:253],
        str(body["problem"])[:LONGEST_PROBLEM],
    )


def _secret_files(found: Any) -> tuple[SecretFile, ...]:
    if not isinstance(found, list) or len(found) > MOST_SECRETS:
        raise ValueError(f"not a list of at most {MOST_SECRETS} Secrets")
    return tuple(_secret_file(one) for one in found)


def _secret_file(found: Any) -> SecretFile:
    made = SecretFile(**found)
    named = _SECRET.fullmatch(made.secret) and _KEY.fullmatch(made.key)
    if not named or made.file not in FILES or not isinstance(made.optional, bool):
        raise ValueError("not a key of a Secret")
    return made
