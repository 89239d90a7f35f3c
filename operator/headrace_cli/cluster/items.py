"""Objects of a cluster as the items that `-o json` prints, and the texts that people read. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace_cli.view import units
from headrace_cli.view.output import Column, Item, column, columns, fields, table


def _may_lack(heading: str) -> Column:
    return heading, lambda each: each.get(heading.lower(), "")


NAMESPACE = column("NAMESPACE")
CHANNEL_COLUMNS = columns("NAME READY REASON URL SUBSCRIBERS AGE")
SUBSCRIPTION_COLUMNS = columns("NAME CHANNEL READY REASON SUBSCRIBER AGE")
CONDITION_COLUMNS: tuple[Column, ...] = (
    ("  CONDITION", lambda each: f"  {each['type']}"),
    *(_may_lack(heading) for heading in ("STATUS", "REASON", "MESSAGE")),
)


def message_column(items: Sequence[Item]) -> tuple[Column, ...]:
    """The column that says why channels are not ready, if any of them has a reason."""
    if not any(item["message"] for item in items):
        return ()
    return (("MESSAGE", lambda item: ": ".join(each for each in (item["reason"], item["message"]) if each)),)


def channel_item(body: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """One NatsJetStreamChannel for a list."""
    status = body.get("status") or {}
    return {
        **_known(body, now),
        "url": (status.get("address") or {}).get("url", ""),
        "subscribers": len((body.get("spec") or {}).get("subscribers") or ()),
        "object": body,
    }


def channel_text(item: Item) -> str:
    """One NatsJetStreamChannel for people."""
    body = item["object"]
    status = body.get("status") or {}
    names = {each.get("uid"): each.get("name") for each in (body.get("spec") or {}).get("subscribers") or ()}
    text = fields(
        [
            ("Name", item["name"]),
            ("Namespace", item["namespace"]),
            ("Age", item["age"]),
            ("Ready", item["ready"]),
            ("URL", item["url"]),
            ("Stream", status.get("stream")),
            ("Subscribers", status.get("readySubscribers") or item["subscribers"]),
        ]
    )
    if conditions := status.get("conditions"):
        text += "\nConditions:\n" + table(CONDITION_COLUMNS, conditions)
    columns: tuple[Column, ...] = (
        ("  SUBSCRIBER", lambda each: f"  {names.get(each.get('uid')) or each.get('uid')}"),
        _may_lack("READY"),
        _may_lack("MESSAGE"),
    )
    if subscribers := status.get("subscribers"):
        text += "\nSubscribers:\n" + table(columns, subscribers)
    return text


def readiness(body: Mapping[str, Any]) -> dict[str, str]:
    """Whether the channel is ready, and why not."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((each for each in conditions if each.get("type") == "Ready"), {})
    return {
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason", ""),
        "message": body.get("error") or ready.get("message", ""),
    }


def subscription_item(body: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """One Subscription for a list."""
    spec = body.get("spec") or {}
    of = spec.get("channel") or {}
    subscriber = spec.get("subscriber") or {}
    ref = subscriber.get("ref") or {}
    resolved = ((body.get("status") or {}).get("physicalSubscription") or {}).get("subscriberUri")
    named = "/".join(part for part in (ref.get("kind", "").lower(), ref.get("name", "")) if part)
    return {
        **_known(body, now),
        "channel": f"{of.get('kind', '')}/{of.get('name', '')}",
        "subscriber": resolved or subscriber.get("uri") or named,
        "object": body,
    }


def _known(body: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    metadata = body["metadata"]
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        **readiness(body),
        "age": units.age(units.moment(metadata.get("creationTimestamp")), now),
    }
