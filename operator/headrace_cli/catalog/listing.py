"""Channels and Subscriptions as items: what NATS says of them, and beside it what a `headrace up` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.core import names
from headrace.core.errors import Refused
from headrace_cli.access.bulletin import Object
from headrace_cli.access.session import Session
from headrace_cli.catalog import items
from headrace_cli.catalog.channels import CatalogChannel, channel, channels, unmade
from headrace_cli.catalog.names import ChannelScope, NamespacedName
from headrace_cli.catalog.subscriptions import CatalogSubscription, all_subscriptions, subscriptions, sunk_of
from headrace_cli.cluster.items import readiness


@dataclass(frozen=True, slots=True)
class Listing:
    """The items of a scope.

    Attributes:
        known: how many there are in all scopes, for the message when this one is empty.
    """

    items: list[dict[str, Any]]
    known: int


async def list_channels(session: Session, scope: ChannelScope, now: datetime) -> Listing:
    """The channels of a scope, by namespace and name."""
    objects, found = _objects(session), await channels(session.api)
    known = [*found, *(unmade(where) for where in objects.keys() - {each.ref for each in found})]
    chosen = sorted((each for each in known if scope.covers(each.ref)), key=lambda each: (each.namespace, each.name))
    return Listing([await _item(session, each, objects, now) for each in chosen], len(known))


async def describe_channel(session: Session, wanted: NamespacedName, now: datetime) -> dict[str, Any]:
    """One channel, with its Subscriptions.

    Raises:
        Refused: 404, neither NATS nor a `headrace up` knows it.
    """
    objects = _objects(session)
    try:
        found = await channel(session.api, wanted)
    except Refused as error:
        if error.status != 404 or wanted not in objects:
            raise
        found = unmade(wanted)
    served = await subscriptions(session.admin, found) if found.origin != "unmade" else []
    each = [await describe_subscription(session, one, now) for one in served]
    return {**await _item(session, found, objects, now), "subscriptions": each}


async def list_subscriptions(session: Session, scope: ChannelScope, now: datetime) -> Listing:
    """The Subscriptions of a channel, from all namespaces; without a channel, those of the scope's namespace."""
    known = await all_subscriptions(session, scope.channel)
    chosen = [one for one in known if scope.channel is not None or scope.covers(one.ref)]
    return Listing([items.subscription_item(one, now) for one in chosen], len(known))


async def describe_subscription(session: Session, one: CatalogSubscription, now: datetime) -> dict[str, Any]:
    """One Subscription, with the events that its dead letter sink took."""
    return items.subscription_item(one, now, await sunk_of(session.admin, one))


def _objects(session: Session) -> dict[NamespacedName, Object]:
    bodies = session.place.bulletin.objects
    return {NamespacedName(str(body["metadata"]["namespace"]), str(body["metadata"]["name"])): body for body in bodies}


async def _item(
    session: Session, found: CatalogChannel, objects: Mapping[NamespacedName, Object], now: datetime
) -> dict[str, Any]:
    parked = 0 if found.aside is None else await session.admin.count(found.aside_name, names.parked_subjects())
    consumers = int(found.info["state"].get("consumer_count", 0))
    item = items.channel_item(found, consumers, parked, now)
    body = objects.get(found.ref)
    if body is None:
        return {**item, "ready": None, "reason": "", "message": "", "conditions": None}
    return {**item, **readiness(body), "conditions": (body.get("status") or {}).get("conditions") or []}
