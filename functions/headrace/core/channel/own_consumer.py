"""Consumers that carry our mark, and the subscribers that they serve, as their metadata says.

Does not know how they should be: that is `headrace.core.channel.consumer`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.channel.consumer import SUBSCRIPTION_KEY
from headrace.core.delivery.subscriber import Subscriber, from_metadata
from headrace.core.errors import InvalidSpec
from headrace.core.nats.stream import CHANNEL_KEY, NAMESPACE_KEY, Owner
from headrace.core.raw_config import Config


@dataclass(frozen=True, slots=True)
class OwnConsumer:
    """A consumer with our mark, and its subscriber."""

    durable: str
    config: Config
    subscriber: Subscriber


def owned(config: Config, owner: Owner) -> Subscriber | None:
    """The subscriber of a consumer of this channel; None for all other consumers.

    Metadata that was damaged by hand counts as that of a subscriber without a uid: so the consumer keeps its position
    until the entry of the same name mends it.
    """
    metadata = config.get("metadata") or {}
    try:
        subscriber = from_metadata(metadata)
    except InvalidSpec:
        subscriber = Subscriber(
            namespace=metadata.get(NAMESPACE_KEY, ""),
            channel=metadata.get(CHANNEL_KEY, ""),
            name=metadata.get(SUBSCRIPTION_KEY, ""),
            uid="",
            generation=0,
            aside="",
        )
    if subscriber is None or (subscriber.namespace, subscriber.channel) != (owner.namespace, owner.channel):
        return None
    return subscriber
