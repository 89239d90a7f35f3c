"""Whose credentials a channel shows to NATS, as its author wrote it: `spec.connection`.

Names a Secret and never holds one. `headrace.core.installation.secret_files` knows the meaning of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.manifest.field_types import ObjectName
from headrace.core.manifest.part import Part


class SecretRef(Part):
    """A Secret of the channel's namespace, with some of these keys: nats.creds, or nkey.seed, or token, or username and
    password; tls.crt and tls.key; ca.crt.
    """

    name: ObjectName
    """Name of the Secret."""


class ConnectionSpec(Part):
    """How this channel reaches NATS, if in another way than its namespace; it then has functions of its own."""

    secret_ref: SecretRef | None = None


def own_secret(parent: Mapping[str, Any]) -> str:
    """The Secret of a channel, whatever else is wrong with it; empty for none."""
    found: Any = parent
    for member in ("spec", "connection", "secretRef", "name"):
        found = found.get(member) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""
