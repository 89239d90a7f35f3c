"""The consumer that the Go channel would have made for a Subscription. Pure.

It takes what it needs of ours: filter, replay, samples and rate. What only the manifest says, as a template's ackWait,
its controller sets when it looks at the consumer.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.core import names
from headrace.core.channel.consumer import MAX_ACK_PENDING
from headrace.core.channel.peer import TAKEN_KEY
from headrace.core.channel.stream_config import nanoseconds
from headrace.core.delivery.subscriber import DEFAULT_TIMEOUT, DeliveryPolicy, Subscriber
from headrace.core.nats.stream import PREFIX

# The Go channel's dispatcher ends a request so long before the server gives the event to the next.
_SLACK = timedelta(milliseconds=500)
# The members of our configuration that mean the same to the Go channel.
_SHARED = ("replay_policy", "sample_freq", "filter_subject", "filter_subjects", "num_replicas")
_BEGINNING = ("deliver_policy", "opt_start_seq", "opt_start_time")


def config(subscriber: Subscriber, ours: dict[str, Any], *, pull: bool) -> dict[str, Any]:
    """The configuration for `CONSUMER.CREATE`, without the consumer's beginning.

    Args:
        ours: the configuration of the consumer that serves the Subscription now.
        pull: the channel has the consumerType Pull.
    """
    durable, policy = names.durable(subscriber.uid), subscriber.policy
    ordered = subscriber.order.one_lease
    most = 0 if ordered else int(ours.get("max_ack_pending") or 0)
    wanted: dict[str, Any] = {
        "durable_name": durable,
        "name": durable,
        "ack_policy": "explicit",
        **{key: ours[key] for key in _SHARED if ours.get(key)},
        **({"max_ack_pending": most} if most not in (0, MAX_ACK_PENDING) else {}),
    }
    if policy.timeout != DEFAULT_TIMEOUT:
        wanted["ack_wait"] = nanoseconds(policy.timeout + _SLACK)
    if policy != DeliveryPolicy():
        wanted["max_deliver"] = policy.retry + 1
    if (metadata := _without_marks(ours.get("metadata") or {})) != {}:
        wanted["metadata"] = metadata
    if not pull:
        wanted["deliver_subject"] = f"{subscriber.names.subject}_consumer.{durable.removeprefix('KN_SUB_').lower()}"
        wanted["deliver_group"] = durable
        if subscriber.rate_limit_bps:
            wanted["rate_limit_bps"] = subscriber.rate_limit_bps
    return wanted


def beginning(ours: dict[str, Any]) -> dict[str, Any]:
    """The beginning that the template gives a consumer, and the Go channel expects; `all` where it is not known."""
    if TAKEN_KEY in (ours.get("metadata") or {}):
        return {"deliver_policy": "all"}
    return {key: ours[key] for key in _BEGINNING if ours.get(key)}


def stream(observed: dict[str, Any]) -> dict[str, Any]:
    """A stream's configuration without our marks."""
    return {**observed, "metadata": _without_marks(observed.get("metadata") or {})}


def _without_marks(metadata: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if not key.startswith((PREFIX, "_nats."))}
