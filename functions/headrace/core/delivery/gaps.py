"""How many events the server discarded before they were delivered, told from gaps in the stream's sequence.

The first deliveries of an unfiltered consumer follow the stream's sequence without a gap, unless the messages between
are gone: discarded by a limit, by age or by hand. Two deliveries to one lease whose consumer sequences are neighbours
had no other delivery between them, so a gap between their stream sequences is a loss. Deliveries to other leases are
judged there. Pure; fed by `headrace.forward`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core import subject_pattern
from headrace.core.nats.jetstream import Message


class Gaps:
    """The sequences that one lease has seen."""

    def __init__(self, delivery: int, sequence: int) -> None:
        """Args:
        delivery: the consumer sequence of its last delivery.
        sequence: the highest stream sequence that it has been delivered; for a new consumer the one before its first.
        """
        self._delivery = delivery
        self._highest: int | None = sequence

    def seen(self, message: Message) -> int:
        """How many events are missing just before this one."""
        follows = message.delivery == self._delivery + 1
        self._delivery = message.delivery
        highest = self._highest if follows else None
        if message.delivered > 1:
            # A redelivery says nothing of the messages that come for the first time.
            self._highest = highest
            return 0
        self._highest = message.sequence if highest is None else max(highest, message.sequence)
        return 0 if highest is None else max(0, message.sequence - highest - 1)


def begin(info: Mapping[str, Any]) -> Gaps | None:
    """Where a lease begins, from CONSUMER.INFO; None for a consumer that passes over messages of its stream."""
    config = info["config"]
    if subject_pattern.filters(config) != [">"]:
        return None
    delivered = info.get("delivered") or {}
    return Gaps(int(delivered.get("consumer_seq", 0)), int(delivered.get("stream_seq", 0)))
