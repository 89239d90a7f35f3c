"""The order in which a subscriber wants its events, and what the server has to enforce for it.

Knows the annotations and the consumer keys of the JetStream API. Does not know leases: `headrace.core.delivery.order`
says which message may go when (ADR 015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from headrace.core.errors import InvalidSpec
from headrace.core.event.event import is_name
from headrace.core.quoting import quoted

DELIVERY_ORDER = "headrace.dev/delivery-order"
ORDER_KEY = "headrace.dev/order-key"
# CloudEvents' extension for just this.
DEFAULT_KEY = "partitionkey"

GROUP = "headrace"
"""The one priority group of a by-key consumer."""
# How long a dead lease keeps others out. Below the ack wait of 8 s, so that its successor is there when the events that
# it had in hand come back; pins are renewed every second (`headrace.io.jetstream.pin`).
PIN_TIMEOUT = timedelta(seconds=5)

_PINNED = "pinned_client"


class DeliveryOrder(StrEnum):
    """ORDERED: one event in flight. BY_KEY: one event in flight of each value of an attribute."""

    UNORDERED = "unordered"
    ORDERED = "ordered"
    BY_KEY = "by-key"


@dataclass(frozen=True, slots=True)
class OrderSpec:
    """The order that the author asks for; with BY_KEY, `key` names the attribute that counts."""

    kind: DeliveryOrder = DeliveryOrder.UNORDERED
    key: str = DEFAULT_KEY

    @property
    def one_lease(self) -> bool:
        """Whether a second lease at the same time would have nothing to do."""
        return self.kind is not DeliveryOrder.UNORDERED


def from_annotations(
    annotations: Mapping[str, str], default: OrderSpec | None = None, *, path: str = "metadata"
) -> OrderSpec:
    """The order that annotations ask for.

    Args:
        default: for whatever they leave open; for a Subscription, the channel's.
        path: of the object with the annotations, for the error.

    Raises:
        InvalidSpec: naming the annotation and quoting its value.
    """
    default = default or OrderSpec()
    kind = annotations.get(DELIVERY_ORDER, str(default.kind))
    if kind not in list(DeliveryOrder):
        field = f"{path}.annotations[{DELIVERY_ORDER}]"
        raise InvalidSpec(f"{field} is {quoted(kind)}: it should be {', '.join(DeliveryOrder)}", field=field)
    key = annotations.get(ORDER_KEY, default.key)
    if not is_name(key):
        field = f"{path}.annotations[{ORDER_KEY}]"
        problem = "it should name an attribute of the events, in letters a-z and digits"
        raise InvalidSpec(f"{field} is {quoted(key)}: {problem}", field=field)
    return OrderSpec(DeliveryOrder(kind), key)


def refuse_useless_key(annotations: Mapping[str, str], orders: Sequence[OrderSpec], *, path: str = "metadata") -> None:
    """Refuse an order key that orders nobody's events.

    Args:
        orders: of all subscribers that the annotations may be meant for; with none, nothing is refused.

    Raises:
        InvalidSpec: naming the annotation.
    """
    if ORDER_KEY not in annotations or not orders or any(one.kind is DeliveryOrder.BY_KEY for one in orders):
        return
    field = f"{path}.annotations[{ORDER_KEY}]"
    problem = f"it counts with {DELIVERY_ORDER}: by-key only, and the order is {orders[0].kind}"
    raise InvalidSpec(f"{field} is {quoted(annotations[ORDER_KEY])}: {problem}", field=field)


def consumer_settings(spec: OrderSpec) -> dict[str, Any]:
    """The keys of the consumer's configuration with which the server enforces the order."""
    match spec.kind:
        case DeliveryOrder.UNORDERED:
            return {}
        case DeliveryOrder.ORDERED:
            return {"max_ack_pending": 1}
        case DeliveryOrder.BY_KEY:
            return {
                "priority_groups": [GROUP],
                "priority_policy": _PINNED,
                "priority_timeout": PIN_TIMEOUT // timedelta(microseconds=1) * 1000,
            }


def undone(observed: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that take the priority groups away from a consumer that is not, or no longer, by-key.

    Groups that somebody has added by hand go as well: with them the server refuses our pulls, which name no group.
    """
    if "priority_policy" in wanted or not observed.get("priority_groups"):
        return {}
    return {"priority_groups": [], "priority_policy": "none", "priority_timeout": 0}


def enforced(config: Mapping[str, Any]) -> bool:
    """Whether the server lets only one lease pull; a server before 2.11 drops these keys silently."""
    return config.get("priority_policy") == _PINNED and GROUP in (config.get("priority_groups") or ())


def too_old(asked: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """Why a created consumer is not as asked for, in words; empty when it is."""
    if enforced(asked) and not enforced(got):
        return f"{DELIVERY_ORDER} by-key needs NATS 2.11 or later, and this server dropped its settings"
    return ""
