"""The request of a lease after a pull that was filled: more within its limit of bytes, or one message of any size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from headrace.core.delivery.lease import Lease, Outcome
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.nats.jetstream import Message
from headrace.core.nats.pull_status import PullEnd
from headrace.forward import forward
from tests.support.functions.effects import effects

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
WHOM = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside", subscriber=Destination("http://billing/"))
SLOTS, BYTES = 4, 1024 * 1024


class Consumer:
    """A consumer with so many messages, the first of which may be larger than what a pull asks for.

    Attributes:
        asked: batch and bytes of each pull.
        clock: moves while a pull waits for nothing, and when one has ended.
    """

    def __init__(self, messages: int, *, too_large: bool = False) -> None:
        self.messages = messages
        self.asked: list[tuple[int, int]] = []
        self.clock = 0.0
        self.pulling = False
        self.most_bytes = 0
        self._too_large = too_large

    async def open_inbox(self, on_message: Callable[[Message], None], on_end: Callable[[PullEnd], None]) -> Consumer:
        self._on_message, self._on_end = on_message, on_end
        return self

    async def pull(self, batch: int, expires: timedelta, max_bytes: int) -> None:
        self.asked.append((batch, max_bytes))
        self.pulling = True
        fits = max_bytes == 0 or not self._too_large
        brought = min(batch, self.messages) if fits else 0
        self.messages -= brought
        self._too_large = self._too_large and not fits
        loop = asyncio.get_running_loop()
        for sequence in range(brought):
            loop.call_soon(self._on_message, Message("s", EVENT, b"", "$JS.ACK", "S", "C", 1, sequence + 1, 0))
        if fits and not brought:
            self.clock += expires.total_seconds()
        loop.call_soon(self._end, PullEnd.FILLED if brought == batch or not fits else PullEnd.EXPIRED)

    def _end(self, how: PullEnd) -> None:
        self.pulling = False
        self._on_end(how)
        # The pause before the next pull, if there is to be one, is over.
        self.clock += 0.5

    async def stop(self) -> None:
        self.pulling = False

    async def close(self) -> None:
        """Nothing is held."""

    async def served(self) -> int:
        """Serve one lease; how many events it has delivered."""

        world = effects(open_inbox=self.open_inbox, monotonic=lambda: self.clock)
        lease = Lease("S", "C", seconds=1000.0, linger=2.0, max_in_flight=SLOTS, max_bytes=BYTES)
        async with asyncio.timeout(30):
            tally = await forward(lease, WHOM, 1024, world, asyncio.Event())
        return tally.counts[Outcome.DELIVERED]


async def test_a_pull_that_was_filled_is_followed_by_one_with_a_limit_of_bytes() -> None:
    consumer = Consumer(3 * SLOTS)

    assert await consumer.served() == 3 * SLOTS
    assert consumer.asked[0] == (SLOTS, BYTES)
    assert all(most_bytes > 0 for _, most_bytes in consumer.asked)


async def test_one_that_was_filled_and_brought_nothing_is_followed_by_one_for_a_message_of_any_size() -> None:
    consumer = Consumer(2, too_large=True)

    assert await consumer.served() == 2
    assert consumer.asked[:2] == [(SLOTS, BYTES), (1, 0)]
    assert all(most_bytes > 0 for _, most_bytes in consumer.asked[2:])
