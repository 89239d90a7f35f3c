"""Which consumers `forward` serves, and what it answers to a lease on any other.

Pure. Called by `headrace.host.leasing` with what the server says of the consumer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headrace.core.delivery import order_spec, subscriber
from headrace.core.delivery.order_spec import DeliveryOrder
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.http import Response, problem
from headrace.core.quoting import quoted


def admit(consumer: str, config: Mapping[str, Any], tokens: Collection[str] = ()) -> Subscriber | Response:
    """The subscriber that a consumer serves, or the refusal of a consumer that can't be served.

    The consumer's own metadata says where its events go; whoever opens a lease can't send them anywhere else.

    Args:
        config: the consumer's configuration, as the server has it.
        tokens: the audiences for which the lease has tokens: nothing is sent without a token to an address that asks
            for one.
    """
    try:
        found = subscriber.from_metadata(config.get("metadata"))
    except InvalidSpec as error:
        return problem(409, "Damaged consumer", str(error))
    if found is None:
        return problem(409, "Not our consumer", f"consumer {consumer!r} was not made by Headrace")
    if found.state is not SubscriberState.READY:
        return problem(409, "Not deliverable", f"{found.state}: {found.reason or 'the Subscription is gone'}")
    if lacking := [quoted(audience) for audience in found.audiences if audience not in tokens]:
        needs = f"no token for {' and '.join(lacking)} came with the lease: only Headrace's operator gives them"
        return problem(409, "Not deliverable", f"consumer {consumer!r} needs tokens, and {needs}")
    if found.order.kind is DeliveryOrder.BY_KEY and not order_spec.enforced(config):
        needs = "its order by key is not enforced by the server: it needs NATS 2.11 or later"
        return problem(409, "Not deliverable", f"consumer {consumer!r} is not pinned; {needs}")
    return found
