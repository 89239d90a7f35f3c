"""Channels and Subscriptions as the items that `-o json` prints, and the texts that people read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headrace.core import duration
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.delivery.sunk import Sunk
from headrace.core.plural import counted
from headrace_cli.catalog.channels import CatalogChannel
from headrace_cli.catalog.subscriptions import CatalogSubscription
from headrace_cli.cluster.items import CONDITION_COLUMNS, message_column
from headrace_cli.view import units
from headrace_cli.view.output import Column, Item, column, columns, fields, table

CHANNEL_COLUMNS: tuple[Column, ...] = (
    column("NAME"),
    ("STREAM", lambda item: item["stream"]["name"]),
    ("EVENTS", lambda item: item["stream"]["messages"]),
    ("SIZE", lambda item: units.size(item["stream"]["bytes"])),
    *columns("SUBSCRIPTIONS PARKED ORIGIN AGE"),
)
SUBSCRIPTION_COLUMNS: tuple[Column, ...] = (
    *columns("NAME CHANNEL STATE PENDING UNSETTLED REDELIVERED"),
    ("SUBSCRIBER", lambda item: (item["subscriber"] or {}).get("uri", "")),
)


def channel_columns(items: Sequence[Item]) -> tuple[Column, ...]:
    """The columns of a list; only a `headrace up` knows conditions, NATS alone does not."""
    if all(item["ready"] is None for item in items):
        return CHANNEL_COLUMNS
    return (*CHANNEL_COLUMNS, ("READY", lambda item: item["ready"] or "-"), *message_column(items))


def channel_item(channel: CatalogChannel, subscriptions: int, parked: int, now: datetime) -> dict[str, Any]:
    """One channel for a list."""
    config, state = channel.info["config"], channel.info["state"]
    return {
        "namespace": channel.namespace,
        "name": channel.name,
        "origin": channel.origin,
        "cluster": channel.cluster,
        "uid": channel.uid,
        "subject": channel.subject,
        "stream": {
            "name": channel.stream,
            "messages": int(state["messages"]),
            "bytes": int(state["bytes"]),
            "firstSequence": int(state["first_seq"]),
            "lastSequence": int(state["last_seq"]),
            "firstTime": _time(state.get("first_ts")),
            "lastTime": _time(state.get("last_ts")),
            "created": _time(channel.info.get("created")),
            "retention": config.get("retention"),
            "storage": config.get("storage"),
            "replicas": config.get("num_replicas"),
            "discard": config.get("discard"),
            "maxMessages": config.get("max_msgs"),
            "maxBytes": config.get("max_bytes"),
            "maxAgeSeconds": int(config.get("max_age", 0)) / 1e9,
            "duplicateWindowSeconds": int(config.get("duplicate_window", 0)) / 1e9,
            "subjects": config.get("subjects"),
        },
        "aside": None if channel.aside is None else channel.aside_name,
        "subscriptions": subscriptions,
        "parked": parked,
        "age": units.age(units.moment(channel.info.get("created")), now),
    }


def channel_text(item: Item) -> str:
    """One channel for people, with its Subscriptions."""
    stream = item["stream"]
    limits = ", ".join(
        f"{words} {shown}"
        for words, value, shown in (
            ("events", stream["maxMessages"] or -1, str(stream["maxMessages"])),
            ("size", stream["maxBytes"] or -1, units.size(stream["maxBytes"] or -1)),
            ("age", stream["maxAgeSeconds"] or -1, units.span(stream["maxAgeSeconds"])),
        )
        if value > 0
    )
    sequences = f"{stream['firstSequence']} to {stream['lastSequence']}" if stream["messages"] else ""
    # Of a stream that is gone or could not be made there is no more to tell.
    made = "" if stream["storage"] is None else "made"
    text = fields(
        [
            ("Name", item["name"]),
            ("Namespace", item["namespace"]),
            ("Ready", item["ready"]),
            ("Age", item["age"]),
            ("Origin", item["origin"]),
            ("Stream", stream["name"]),
            ("  Subject", item["subject"]),
            ("  Events", f"{stream['messages']} ({units.size(stream['bytes'])})"),
            ("  Sequences", sequences),
            ("  Newest", stream["lastTime"]),
            ("  Storage", made and f"{stream['storage']}, {counted(stream['replicas'], 'replica')}"),
            ("  Retention", made and f"{stream['retention']}, discard {stream['discard']}"),
            ("  Limits", made and (limits or "none")),
            ("Parked events", item["parked"] if item["aside"] else "no aside stream"),
        ]
    )
    if item["conditions"]:
        text += "\nConditions:\n" + table(CONDITION_COLUMNS, item["conditions"])
    if item["subscriptions"]:
        name: Column = ("  NAME", lambda each: f"  {each['namespace']}/{each['name']}")
        return f"{text}\nSubscriptions:\n{table((name, *SUBSCRIPTION_COLUMNS[2:]), item['subscriptions'])}"
    return text + "\nSubscriptions:  none\n"


def subscription_item(one: CatalogSubscription, now: datetime, sunk: Sunk | None = None) -> dict[str, Any]:
    """One Subscription; `sunk`: the events that its dead letter sink took in its place."""
    known, config = one.subscriber, one.config
    seconds = float(one.info.get("pause_remaining") or 0) / 1e9
    return {
        "namespace": one.namespace,
        "name": one.name,
        "channel": str(one.channel.ref),
        "consumer": one.consumer,
        "stream": one.channel.stream,
        "state": one.state,
        "reason": one.damage or (known.reason if known else "Headrace did not make this consumer"),
        "pausedForSeconds": round(seconds) if one.info.get("paused") else None,
        "subscriber": _destination(known.subscriber if known else None),
        "reply": _destination(known.reply if known else None),
        "deadLetterSink": _destination(known.dead_letter if known else None),
        "delivery": _policy(known) if known else None,
        "order": str(known.order.kind) if known else None,
        "pending": one.pending,
        "unsettled": one.unacked,
        "unsettledLimit": int(config.get("max_ack_pending", 0)),
        "redelivered": one.redelivered,
        "sunk": sunk_item(sunk),
        "pulls": one.waiting,
        "settledTo": one.settled_to,
        "lastDelivery": None if one.delivered_at is None else units.stamp(one.delivered_at),
        "filter": config.get("filter_subjects") or ([config["filter_subject"]] if config.get("filter_subject") else []),
        "age": units.age(units.moment(one.info.get("created")), now),
    }


def sunk_item(sunk: Sunk | None) -> dict[str, Any] | None:
    """The events that a dead letter sink took."""
    if sunk is None:
        return None
    return {"events": sunk.events, "last": units.stamp(sunk.at), "lastAnswer": sunk.last, "sink": sunk.sink}


def sunk_text(sunk: Item | None) -> str:
    """The events that a dead letter sink took, in words; empty for none."""
    if sunk is None:
        return ""
    return f"{counted(sunk['events'], 'event')}, the last at {sunk['last']}: {sunk['lastAnswer']}"


def subscription_text(item: Item) -> str:
    """One Subscription for people."""
    policy = item["delivery"] or {}
    retries = ""
    if policy:
        retries = (
            f"{counted(policy['retry'], 'retry', 'retries')}, {policy['backoffPolicy']} from {policy['backoffDelay']}, "
            f"timeout {policy['timeout']}"
        )
    state = item["state"]
    if item["pausedForSeconds"]:
        state += f", for another {units.span(item['pausedForSeconds'])}"
    return fields(
        [
            ("Name", item["name"]),
            ("Namespace", item["namespace"]),
            ("Channel", item["channel"]),
            ("Age", item["age"]),
            ("State", state),
            ("Reason", item["reason"]),
            ("Subscriber", (item["subscriber"] or {}).get("uri")),
            ("Reply", (item["reply"] or {}).get("uri")),
            ("Dead letter sink", (item["deadLetterSink"] or {}).get("uri") or "none: events are parked"),
            ("  Took in its place", sunk_text(item["sunk"])),
            ("Delivery", retries),
            ("Order", item["order"]),
            ("Consumer", f"{item['consumer']} of {item['stream']}"),
            ("  Sees only", ", ".join(item["filter"])),
            ("  Pending", item["pending"]),
            ("  Unsettled", f"{item['unsettled']} of at most {item['unsettledLimit']}"),
            ("  Redelivered", item["redelivered"]),
            ("  Settled", f"everything up to sequence {item['settledTo']}"),
            ("  Last delivery", item["lastDelivery"] or "never"),
            ("  Open pulls", item["pulls"]),
        ]
    )


def _time(text: str | None) -> str | None:
    when = units.moment(text)
    return None if when is None else units.stamp(when)


def _destination(to: Destination | None) -> dict[str, Any] | None:
    return None if to is None else {"uri": to.uri}


def _policy(known: Subscriber) -> dict[str, Any]:
    policy = known.policy
    return {
        "retry": policy.retry,
        "backoffPolicy": str(policy.backoff_policy),
        "backoffDelay": duration.to_iso(policy.backoff_delay),
        "timeout": duration.to_iso(policy.timeout),
    }
