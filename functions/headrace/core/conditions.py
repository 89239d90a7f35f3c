"""Status conditions in Knative's form: True, False or Unknown, with reason, message and the time of the last change.

Pure: the time is an argument. Called by every part that adds conditions to a status, above all
`headrace.core.channel.status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.quoting import plain_lines

MOST_AHEAD = timedelta(minutes=5)
"""How far another clock may be ahead of ours; a change with a later time is not believed."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition.

    Attributes:
        reason: one CamelCase word; empty when there is nothing to say.
        informative: the channel stays ready when the condition is False (Knative's severity Info).
        unknown: nobody knows yet whether the condition holds, so it is neither True nor False.
    """

    type: str
    holds: bool
    reason: str = ""
    message: str = ""
    informative: bool = False
    unknown: bool = False


def ready(conditions: Iterable[Condition]) -> Condition:
    """The condition Ready. Its reason is that of the first False condition, or else of the first Unknown one."""
    lacking = [one for one in conditions if not one.holds and not one.informative]
    for one in (*(one for one in lacking if not one.unknown), *lacking):
        return replace(one, type="Ready")
    return Condition("Ready", True)


def stamp(conditions: Iterable[Condition], parent: Mapping[str, Any], now: datetime) -> list[dict[str, str]]:
    """The conditions as the status holds them, sorted by type. A condition keeps the time of its last change."""
    before = _before(parent, now + MOST_AHEAD)
    moment = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = []
    for condition in sorted(conditions, key=lambda one: one.type):
        status = "True" if condition.holds else "Unknown" if condition.unknown else "False"
        body = {"type": condition.type, "status": status}
        if condition.informative and not condition.holds:
            body["severity"] = "Info"
        if condition.reason:
            body["reason"] = condition.reason
        if condition.message:
            # It holds words of strangers, and kubectl shows it as it is.
            body["message"] = plain_lines(condition.message)
        earlier, since = before.get(condition.type, ("", ""))
        body["lastTransitionTime"] = since if since and earlier == status else moment
        found.append(body)
    return found


def added(status: Mapping[str, Any], condition: Condition, parent: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The same status with one more condition, which replaces an earlier one of its type."""
    others = [one for one in status.get("conditions") or () if one["type"] != condition.type]
    conditions = [*others, *stamp((condition,), parent, now)]
    return {**status, "conditions": sorted(conditions, key=lambda one: str(one["type"]))}


def required(
    status: Mapping[str, Any], condition: Condition, parent: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """The same status with one more condition, without which the channel is not Ready; an earlier reason stays."""
    body = added(status, condition, parent, now)
    stated = {one["type"]: one["status"] for one in body["conditions"]}
    if condition.holds or condition.informative or stated.get("Ready") == "False":
        return body
    return added(body, replace(condition, type="Ready"), parent, now)


def _before(parent: Mapping[str, Any], latest: datetime) -> dict[str, tuple[str, str]]:
    status = parent.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return {
        str(condition.get("type")): (str(condition.get("status")), _moment(condition.get("lastTransitionTime"), latest))
        for condition in (conditions if isinstance(conditions, list) else [])
        if isinstance(condition, dict)
    }


def _moment(text: object, latest: datetime) -> str:
    """The text, if it is a time that is not too far ahead, else an empty text."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        return str(text) if moment is not None and moment.tzinfo and moment <= latest else ""
    except ValueError:
        return ""
