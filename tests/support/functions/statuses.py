"""Channels that are wanted, and results in which everything went well, for the tests of the status."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from headrace.core.channel.binding import Binding
from headrace.core.channel.desired import Desired, desired
from headrace.core.channel.plan import Observed
from headrace.core.channel.status import Result
from headrace.core.installation.reconcile_settings import ReconcileSettings

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SETTINGS = ReconcileSettings()


def wish(parent: dict[str, Any], settings: ReconcileSettings = SETTINGS) -> Desired:
    found = desired(parent, settings)
    assert isinstance(found, Desired)
    return found


def bound(asked: Desired, **changes: Any) -> tuple[Binding, ...]:
    """Every entry with its consumer."""
    found = []
    for row in asked.rows:
        assert row.subscriber is not None
        durable = f"KN_SUB_{row.uid}"
        found.append(replace(Binding(row.uid, row.generation, row.subscriber, durable), **changes))
    return tuple(found)


def well(asked: Desired, **changes: Any) -> Result:
    """Everything went as wanted."""
    return replace(
        Result(Observed(asked.wanted.config, asked.wanted.aside), bindings=bound(asked), refusals={}), **changes
    )


def conditions(body: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one.get("reason", "")) for one in body["conditions"]}
