"""What `report` shows: streams and consumers with lag, rates, redeliveries and sizes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

from headrace.core.plural import counted
from headrace_cli.access.session import Session
from headrace_cli.catalog.names import ChannelScope
from headrace_cli.health.facts import ChannelFacts, Facts, SubscriptionFacts, account_used, gather, used
from headrace_cli.view import units
from headrace_cli.view.output import Column, column, columns, table

STREAMS: tuple[Column, ...] = (
    column("CHANNEL"),
    column("EVENTS", "messages"),
    ("SIZE", lambda item: units.size(item["bytes"])),
    ("USED", lambda item: f"{item['used'] * 100:.0f} %" if item["used"] else "-"),
    ("IN/s", lambda item: _rate(item["storedPerSecond"])),
    *columns("NEWEST PARKED"),
    ("ASIDE", lambda item: units.size(item["asideBytes"])),
    ("LEADER", lambda item: item["leader"] or "-"),
)
CONSUMERS: tuple[Column, ...] = (
    *columns("CHANNEL SUBSCRIPTION STATE PENDING UNSETTLED RETRYING REDELIVERED"),
    ("OUT/s", lambda item: _rate(item["deliveredPerSecond"])),
    ("SETTLED/s", lambda item: _rate(item["settledPerSecond"])),
    *columns("PARKED SUNK"),
    column("LAST", "lastDelivery"),
)


async def reports(
    session: Session, scope: ChannelScope, interval: float, *, again: bool
) -> AsyncGenerator[dict[str, Any]]:
    """One report, or with `again` one after the other for ever.

    Args:
        interval: seconds between the two looks that rates are made of; 0: the first report needs only one look.
    """
    before, seconds = await gather(session, scope), interval
    while True:
        if seconds:
            await asyncio.sleep(seconds)
        now = await gather(session, scope) if seconds else before
        yield report(now, before if seconds else None)
        if not again:
            return
        before, seconds = now, interval or 1.0


def report(now: Facts, before: Facts | None = None) -> dict[str, Any]:
    """The numbers; with rates only if there is an earlier look to compare with."""
    seconds = 0.0 if before is None else now.clock - before.clock
    earlier = {each.channel.ref: each for each in before.channels} if before is not None else {}
    streams, consumers = [], []
    for each in now.channels:
        old = earlier.get(each.channel.ref)
        streams.append(_stream(each, old, seconds, now.at))
        known = {one.subscription.consumer: one for one in old.subscriptions} if old is not None else {}
        consumers += [
            _consumer(each, one, known.get(one.subscription.consumer), seconds, now.at) for one in each.subscriptions
        ]
    share, limit = account_used(now.account)
    return {
        "account": {
            "storageBytes": int(now.account.get("storage", 0)),
            "memoryBytes": int(now.account.get("memory", 0)),
            "streams": int(now.account.get("streams", 0)),
            "consumers": int(now.account.get("consumers", 0)),
            "used": round(share, 4),
            "limit": limit,
        },
        "channels": streams,
        "subscriptions": consumers,
    }


def text(numbers: dict[str, Any]) -> str:
    """The numbers, for people."""
    account = numbers["account"]
    used_of = f", {account['used'] * 100:.0f} % of its {account['limit']}" if account["limit"] else ""
    head = (
        f"account: {counted(account['streams'], 'stream')}, {counted(account['consumers'], 'consumer')}, "
        f"{units.size(account['storageBytes'])} in files, {units.size(account['memoryBytes'])} in memory{used_of}\n"
    )
    parts = [head, table(STREAMS, numbers["channels"]), table(CONSUMERS, numbers["subscriptions"])]
    return "\n".join(part for part in parts if part)


def _stream(each: ChannelFacts, old: ChannelFacts | None, seconds: float, now: datetime) -> dict[str, Any]:
    info = each.channel.info
    state = info["state"]
    before = None if old is None else int(old.channel.info["state"]["last_seq"])
    return {
        "channel": str(each.channel.ref),
        "stream": each.channel.stream,
        "messages": int(state["messages"]),
        "bytes": int(state["bytes"]),
        "used": round(used(info)[0], 4),
        "lastSequence": int(state["last_seq"]),
        "storedPerSecond": _per_second(int(state["last_seq"]), before, seconds),
        "newest": units.age(units.moment(state.get("last_ts")) if state["messages"] else None, now),
        "parked": each.parked,
        "asideBytes": int(each.channel.aside["state"]["bytes"]) if each.channel.aside else 0,
        "leader": (info.get("cluster") or {}).get("leader", ""),
    }


def _consumer(
    each: ChannelFacts, one: SubscriptionFacts, old: SubscriptionFacts | None, seconds: float, now: datetime
) -> dict[str, Any]:
    known = one.subscription
    before = None if old is None else old.subscription.info
    delivered, settled = _position(known.info, "delivered"), _position(known.info, "ack_floor")
    return {
        "channel": str(each.channel.ref),
        "subscription": str(known.ref),
        "consumer": known.consumer,
        "state": known.state,
        "pending": known.pending,
        "unsettled": known.unacked,
        "retrying": one.retrying,
        "redelivered": known.redelivered,
        "deliveredPerSecond": _per_second(delivered, _position(before, "delivered"), seconds),
        "settledPerSecond": _per_second(settled, _position(before, "ack_floor"), seconds),
        "parked": one.parked,
        "discarded": one.discarded,
        "sunk": 0 if one.sunk is None else one.sunk.events,
        "lastSunk": units.age(None if one.sunk is None else one.sunk.at, now),
        "lastSunkAnswer": "" if one.sunk is None else one.sunk.last,
        "lastDelivery": units.age(known.delivered_at, now),
    }


def _position(info: dict[str, Any] | None, kind: str) -> int | None:
    return None if info is None else int((info.get(kind) or {}).get("consumer_seq", 0))


def _per_second(now: int | None, before: int | None, seconds: float) -> float | None:
    return None if now is None or before is None or seconds <= 0 else round(max(0, now - before) / seconds, 1)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
