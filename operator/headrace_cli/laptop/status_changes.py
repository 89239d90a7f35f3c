"""What two statuses of a channel say differently, as lines for the log. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, str]]:
    """Conditions, and subscribers by their uid, that say something else than before."""
    known = _claims(before)
    return [claim for name, claim in _claims(after).items() if known.get(name) != claim]


def _claims(status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    rows = {str(row.get("type")): _claim("condition", row, "type", "status") for row in status.get("conditions") or ()}
    entries = status.get("subscribers") or ()
    return rows | {str(row.get("uid")): _claim("subscriber", row, "uid", "ready") for row in entries}


def _claim(kind: str, row: Mapping[str, Any], name: str, status: str) -> dict[str, str]:
    told = {key: str(row[key]) for key in ("reason", "message") if row.get(key)}
    return {kind: str(row.get(name)), "status": str(row.get(status)), **told}
