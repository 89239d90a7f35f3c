"""Events that a lease pulls ahead wait for a slot, go in their order, and are given back when the lease must end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from headrace.core.delivery.lease import Lease, Tally
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats import jetstream
from headrace.core.nats.jetstream import Message
from headrace.core.nats.pull_status import PullEnd
from headrace.forward import forward
from tests.support.functions.effects import effects
from tests.support.waiting import until

EVENT = {"ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t"}
WHOM = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside", subscriber=Destination("http://billing/"))
SLOTS = 4


class Served:
    """A stream with so many messages, its subscriber, and a lease between them.

    Attributes:
        ending: set when the lease is told to stop.
        pace: seconds that an answer takes, on the clock of the lease.
        hangs_after: the subscriber answers no event beyond these.
        asked: batch of each pull. posted: the events in their order. most: of them that were in hand at once.
        settled: sequence and payload. held: acks of the messages that are kept from being redelivered.
    """

    def __init__(self, messages: int, pace: float, hangs_after: int = 10_000) -> None:
        self.messages, self.pace, self.hangs_after = messages, pace, hangs_after
        self.asked: list[int] = []
        self.posted: list[int] = []
        self.settled: list[tuple[int, bytes]] = []
        self.held: set[str] = set()
        self.most = self._in_hand = self._brought = 0
        self.pulling, self.most_bytes, self.clock = False, 0, 1000.0
        self.ending = asyncio.Event()

    async def open_inbox(self, on_message: Callable[[Message], None], on_end: Callable[[PullEnd], None]) -> Served:
        self._on_message, self._on_end = on_message, on_end
        return self

    async def pull(self, batch: int, expires: timedelta, _max_bytes: int) -> None:
        self.asked.append(batch)
        self.pulling = True
        brought = min(batch, self.messages - self._brought)
        loop = asyncio.get_running_loop()
        for sequence in range(self._brought + 1, self._brought + brought + 1):
            headers = {**EVENT, "ce-id": str(sequence)}
            message = Message("s", headers, b"", f"$JS.ACK.{sequence}", "S", "C", 1, sequence, 0)
            loop.call_soon(self._on_message, message)
        self._brought += brought
        self.clock += 0.0 if brought else expires.total_seconds()
        loop.call_soon(self._end, PullEnd.FILLED if brought else PullEnd.EXPIRED)

    def _end(self, how: PullEnd) -> None:
        self.pulling = False
        self._on_end(how)

    async def stop(self) -> None:
        self.pulling = False

    async def close(self) -> None:
        """Nothing is kept open."""

    async def post(self, _to: Destination, headers: Headers, _body: bytes, _timeout: timedelta) -> HttpAnswer:
        number = int(dict(headers)[b"ce-id"])
        self.posted.append(number)
        self._in_hand += 1
        self.most = max(self.most, self._in_hand)
        await asyncio.sleep(0)
        if number > self.hangs_after:
            await asyncio.Event().wait()
        self.clock += self.pace
        self._in_hand -= 1
        return HttpAnswer(204)

    async def settle(self, message: Message, payload: bytes) -> None:
        self.settled.append((message.sequence, payload))

    async def lease(self) -> Tally:
        world = effects(
            open_inbox=self.open_inbox,
            post=self.post,
            settle=self.settle,
            monotonic=lambda: self.clock,
            hold=lambda message: self.held.add(message.reply),
            release=lambda message: self.held.discard(message.reply),
        )
        asked = Lease("S", "C", seconds=1000.0, linger=2.0, max_in_flight=SLOTS, max_ahead=3 * SLOTS)
        async with asyncio.timeout(30):
            return await forward(asked, WHOM, 1024, world, self.ending)


async def test_a_quick_subscriber_has_events_pulled_ahead_and_never_more_in_hand() -> None:
    served = Served(200, pace=0.001)
    await served.lease()
    assert 3 * SLOTS < max(served.asked) <= 4 * SLOTS
    assert served.most == SLOTS
    assert served.posted == list(range(1, 201))
    assert not served.held


async def test_a_slow_subscriber_has_nothing_pulled_ahead() -> None:
    served = Served(40, pace=0.2)
    await served.lease()
    assert max(served.asked) == SLOTS
    assert served.posted == list(range(1, 41))


@pytest.mark.parametrize("how", ["stopped", "cut off"])
async def test_what_was_pulled_ahead_is_not_delivered_any_more_when_the_lease_must_end(how: str) -> None:
    served = Served(200, pace=0.001, hangs_after=100)
    lease = asyncio.create_task(served.lease())
    await until("more is held than can be in hand", lambda: len(served.held) > SLOTS)
    await until("the subscriber hangs", lambda: len(served.posted) == 100 + SLOTS)
    ahead = len(served.held) - SLOTS
    assert ahead > 0
    if how == "stopped":
        served.ending.set()
        await until("it gives them back", lambda: len(served.held) == SLOTS)
        assert [sequence for sequence, payload in served.settled if payload == jetstream.NAK] == list(
            range(105, 105 + ahead)
        )
    lease.cancel()
    with suppress(asyncio.CancelledError):
        await lease
    assert len(served.posted) == 100 + SLOTS
    assert not served.held
