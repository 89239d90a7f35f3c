"""The channels of a plan as objects of the API server, subscriptions and all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace_operator.kube.kinds import Key
from tests.simulation.plan import DEAD_LETTER, REPLY, SUBSCRIBER, ChannelPlan, Plan, SubscriptionPlan
from tests.simulation.world.addresses import HOSTS, PORT

NAMESPACE = "default"


def objects(plan: Plan, terms: dict[str, SubscriptionPlan], address_of: dict[str, str]) -> dict[Key, dict[str, Any]]:
    """Each channel by its place.

    Args:
        terms: of the subscriptions now, by name as in `c0/s0`. address_of: the addresses of hosts.
    """
    found = {}
    for one in plan.channels:
        now = tuple(terms[f"{one.name}/{each.name}"] for each in one.subscriptions)
        found[NAMESPACE, one.name] = _object(replace(one, subscriptions=now), address_of)
    return found


def uid(channel: str, subscription: str = "") -> str:
    """The uid of a channel or of a subscription; a real one is random."""
    tail = "".join(f"{ord(letter):02x}" for letter in f"{channel}{subscription}")
    return f"00000000-0000-4000-8000-{tail:0>12}"


def _object(channel: ChannelPlan, address_of: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "metadata": {"namespace": NAMESPACE, "name": channel.name, "uid": uid(channel.name)},
        "spec": {
            "subscribers": [_entry(channel, one, address_of) for one in channel.subscriptions],
            # The author gives it to all consumers of a channel.
            "consumerConfigTemplate": {"maxAckPending": min(one.max_ack_pending for one in channel.subscriptions)},
        },
    }


def _entry(channel: ChannelPlan, one: SubscriptionPlan, address_of: dict[str, str]) -> dict[str, Any]:
    def at(role: str) -> str:
        return f"http://{address_of[HOSTS[role]]}:{PORT}/{channel.name}/{one.name}/{role}"

    delivery: dict[str, Any] = {
        "retry": one.retry,
        "backoffPolicy": one.backoff,
        "backoffDelay": f"PT{one.delay:g}S",
        "timeout": f"PT{one.timeout:g}S",
        "retryAfterMax": f"PT{one.retry_after_max:g}S",
    }
    if one.dead_letter:
        delivery["deadLetterSink"] = {"uri": at(DEAD_LETTER)}
    entry = {
        "name": one.name,
        "uid": uid(channel.name, one.name),
        "subscriberUri": at(SUBSCRIBER),
        "delivery": delivery,
        "annotations": {
            "headrace.dev/delivery-order": one.order,
            "headrace.dev/max-scale": str(one.max_scale),
            "headrace.dev/lag-threshold": str(one.lag_threshold),
        },
    }
    if one.reply:
        entry["replyUri"] = at(REPLY)
    return entry
