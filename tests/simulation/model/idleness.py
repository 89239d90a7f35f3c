"""How long nobody has used a consumer: one that has a threshold for it is deleted then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.simulation.model.unsettled import SECOND

if TYPE_CHECKING:
    from tests.simulation.model.consumer import Consumer

# The server is up to a second late.
_LEAST, _MORE = 0.1, 0.9


class Idleness:
    """The watch over one consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._timer: asyncio.TimerHandle | None = None

    def used(self) -> None:
        """Somebody has settled a message."""
        if self._consumer.config.get("inactive_threshold", 0):
            self._consumer.pulls.active_at = asyncio.get_running_loop().time()

    def rest(self) -> None:
        """Count anew, since it begins, or since the threshold is another."""
        self.stop()
        threshold = self._consumer.config.get("inactive_threshold", 0) / SECOND
        if threshold > 0:
            threshold += _LEAST + self._consumer.stream.server.random.random() * _MORE
            self._timer = asyncio.get_running_loop().call_later(threshold, self._over, threshold)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _over(self, threshold: float) -> None:
        """Delete it, if nobody has used it for so many seconds."""
        loop, consumer = asyncio.get_running_loop(), self._consumer
        server = consumer.stream.server
        left = threshold - (loop.time() - consumer.pulls.active_at)
        if left <= 0 and any(server.interest.has(pull.reply) for pull in consumer.pulls.waiting):
            left = threshold
        if left <= 0 and consumer.pending:
            now, wait = server.now(), consumer.config["ack_wait"]
            left = max((one.time + wait - now) / SECOND + threshold for one in consumer.pending.values())
        # Less than a clock can tell is no time.
        if left > 1e-6:
            self._timer = loop.call_later(left, self._over, threshold)
        else:
            consumer.delete()
