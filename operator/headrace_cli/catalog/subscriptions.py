"""The Subscriptions of a channel: the consumers that serve them say in their metadata whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.core.delivery import subscriber as subscribers
from headrace.core.delivery import sunk
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.delivery.sunk import Sunk
from headrace.core.errors import InvalidSpec, Refused
from headrace.io.jetstream.admin import Admin
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel, Info, channels
from headrace_cli.catalog.names import NamespacedName, parse_ref
from headrace_cli.view import units


@dataclass(frozen=True, slots=True)
class CatalogSubscription:
    """One consumer of a channel.

    Attributes:
        info: CONSUMER.INFO.
        subscriber: read from its metadata; None for a consumer that is not ours, or whose metadata are damaged.
    """

    channel: CatalogChannel
    info: Info
    subscriber: Subscriber | None
    damage: str = ""

    @property
    def consumer(self) -> str:
        return str(self.info["name"])

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.info["config"])

    @property
    def namespace(self) -> str:
        if self.subscriber is None:
            return self.channel.namespace
        return self.subscriber.subscription_namespace or self.subscriber.namespace

    @property
    def name(self) -> str:
        """The Subscription's name; without one the consumer's."""
        return self.subscriber.name if self.subscriber is not None and self.subscriber.name else self.consumer

    @property
    def ref(self) -> NamespacedName:
        return NamespacedName(self.namespace, self.name)

    @property
    def state(self) -> str:
        """`ready`, `gone`, `refused`, `paused`, `damaged`, or `foreign` for a consumer that Headrace does not serve."""
        if self.damage:
            return "damaged"
        if self.subscriber is None:
            return "foreign"
        if self.info.get("paused"):
            return "paused"
        return str(self.subscriber.state)

    @property
    def pending(self) -> int:
        return int(self.info.get("num_pending", 0))

    @property
    def unacked(self) -> int:
        return int(self.info.get("num_ack_pending", 0))

    @property
    def redelivered(self) -> int:
        return int(self.info.get("num_redelivered", 0))

    @property
    def waiting(self) -> int:
        """The number of open pulls, which ask for events just now."""
        return int(self.info.get("num_waiting", 0))

    @property
    def delivered_at(self) -> datetime | None:
        return units.moment((self.info.get("delivered") or {}).get("last_active"))

    @property
    def settled_to(self) -> int:
        """Everything up to this sequence has its final fate."""
        return int((self.info.get("ack_floor") or {}).get("stream_seq", 0))


async def subscriptions(admin: Admin, channel: CatalogChannel) -> list[CatalogSubscription]:
    """All consumers of a channel, by name.

    Raises:
        Unavailable: a server of the cluster is away, so the list would not be whole.
    """
    found = [_subscription(channel, info) for info in await admin.consumer_infos(channel.stream)]
    return sorted(found, key=lambda one: (one.namespace, one.name))


async def sunk_of(admin: Admin, one: CatalogSubscription) -> Sunk | None:
    """The events that its dead letter sink took in its place; None for none. Raises Unavailable."""
    if one.channel.aside is None or one.subscriber is None:
        return None
    text = await admin.text(one.channel.aside_name, one.channel.names.sunk_subject(one.consumer))
    return None if text is None else sunk.from_json(text.encode())


async def all_subscriptions(session: Session, of: NamespacedName | None = None) -> list[CatalogSubscription]:
    """The Subscriptions of all channels, or of one.

    Raises:
        Refused: 404, there is no such channel.
    """
    known = [channel for channel in await channels(session.api) if of in (None, channel.ref)]
    if of is not None and not known:
        raise Refused(f"there is no channel {of}: `kn jetstream channel list -A` shows what there is", status=404)
    return [one for channel in known for one in await subscriptions(session.admin, channel)]


async def find(session: Session, text: str, namespace: str, of: NamespacedName | None = None) -> CatalogSubscription:
    """The Subscription that somebody has named, of any channel or of one; raises Refused as `the_one` does."""
    return the_one(await all_subscriptions(session, of), text, namespace)


def the_one(known: Sequence[CatalogSubscription], text: str, namespace: str) -> CatalogSubscription:
    """The Subscription that somebody has named, by its own name or its consumer's.

    Raises:
        Refused: 404, there is none; 409, several channels have one of that name.
    """
    found = [one for one in known if one.consumer == text]
    found = found or [one for one in known if one.ref == parse_ref(text, namespace)]
    if not found:
        others = ", ".join(str(one.ref) for one in known[:10]) or "none at all"
        raise Refused(f"there is no Subscription {parse_ref(text, namespace)}: this NATS has {others}", status=404)
    if len(found) > 1:
        places = ", ".join(str(one.channel.ref) for one in found)
        raise Refused(f"{text} is a Subscription of {places}: say which with --channel", status=409)
    return found[0]


def _subscription(channel: CatalogChannel, info: Info) -> CatalogSubscription:
    try:
        return CatalogSubscription(channel, info, subscribers.from_metadata(info["config"].get("metadata")))
    except InvalidSpec as error:
        return CatalogSubscription(channel, info, None, damage=str(error))
