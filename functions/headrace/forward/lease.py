"""The pulling of a lease.

A lease pulls until its time is up, or nothing has come for `linger` and nothing is in a subscriber's hands, or it is
told to stop; it then finishes what is in subscribers' hands and gives back what still arrives. Only as many messages
are asked for as can be handed on at once, and nothing is asked for outside a lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from headrace.core import jetstream
from headrace.core.errors import Unavailable
from headrace.core.gaps import Gaps
from headrace.core.http import HttpAnswer
from headrace.core.jetstream import Message, PullEnd
from headrace.core.lease import Lease, Outcome, Tally
from headrace.core.subscriber import Subscriber
from headrace.core.window import ANY_SIZE, Window
from headrace.forward.line import Line
from headrace.forward.one_event import deliver, judge
from headrace.forward.ports import Effects, Inbox
from headrace.forward.reading import words
from headrace.forward.straight import Straight, StraightWay

# How long freed slots are gathered before a pull is sent for fewer than a quarter of the window.
PATIENCE = 0.02
# Before a pull that broke is tried again.
PAUSE = 0.25
# Under a rate limit: what is pulled is delivered at once, so no more is pulled than this many seconds of it.
BURST = 0.1
# A shorter pull would end before the server has looked at it.
SHORTEST_PULL = 0.05


async def forward(
    lease: Lease,
    subscriber: Subscriber,
    largest: int,
    effects: Effects,
    stop: asyncio.Event,
    gaps: Gaps | None = None,
) -> Tally:
    """Serve one lease.

    Args:
        lease: its clamped arguments.
        subscriber: from the consumer's metadata; READY.
        largest: bytes of the largest message that the server takes, its envelope included.
        stop: set when the caller has gone away or the host drains.
        gaps: where the consumer stands; None when the numbers of its messages say nothing.

    Raises:
        Unavailable: NATS is away, nothing was pulled.
    """
    run = _Run(lease, subscriber, Window(lease.max_in_flight, lease.max_bytes, largest), effects, stop, gaps)
    if effects.survey is not None:
        run.line = Line(subscriber, run.window, effects, run.tally, run.changed.set)
    elif effects.at_once is not None and subscriber.subscriber is not None:
        run.straight_way = StraightWay(subscriber, effects, effects.at_once, run.tally, run.on_straight)
    run.inbox = await effects.open_inbox(run.on_message, run.on_end)
    try:
        await run.pull_until_over()
        await run.finish()
    finally:
        run.leave()
        for task in run.tasks:
            task.cancel()
        await run.inbox.close()
    return run.tally


@dataclass
class _Run:
    """The state of one lease."""

    lease: Lease
    subscriber: Subscriber
    window: Window
    effects: Effects
    stop: asyncio.Event
    gaps: Gaps | None
    tally: Tally = field(default_factory=Tally)
    # All that is in subscribers' hands, on either way.
    tasks: set[asyncio.Task[None] | Straight] = field(default_factory=set)
    bytes_in_flight: int = 0
    over: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # Since when a pull could have been sent; None while one is open or no slot is free.
    free_since: float | None = None
    not_before: float = 0.0
    # Bytes of the last message, by which a rate limit judges the next.
    last_size: int = 0
    # Has the open or the latest pull brought anything? If not, and not for want of messages, the next is too large.
    brought: bool = False
    too_large: bool = False
    # Of a by-key consumer.
    line: Line | None = None
    # Of all others.
    straight_way: StraightWay | None = None
    # Under a rate limit: until when what has come is paid for.
    paid_until: float = 0.0
    inbox: Inbox = field(init=False)
    began: float = field(init=False)
    arrived: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.arrived = self.effects.monotonic()

    async def pull_until_over(self) -> None:
        stopping = asyncio.create_task(self.stop.wait())
        stopping.add_done_callback(lambda _: self.changed.set())
        try:
            while not self.over and not self.stop.is_set():
                self.changed.clear()
                await self._top_up()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._nap()):
                        await self.changed.wait()
                self.over = self.over or self._left() <= 0 or self._idle()
        finally:
            self.over = True
            stopping.cancel()

    async def finish(self) -> None:
        """Give the open pull up, and wait for what is in subscribers' hands."""
        self.leave()
        await self.inbox.stop()
        while self.tasks:
            self.changed.clear()
            await self.changed.wait()

    def leave(self) -> None:
        if self.line is not None:
            self.line.leave()

    async def _top_up(self) -> None:
        now = self.effects.monotonic()
        if self.inbox.pulling or self._in_hand >= self.window.slots:
            self.free_since = None
            return
        if now < self.not_before or self._left() < SHORTEST_PULL:
            return
        if self.free_since is None:
            self.free_since = now
        patient = now - self.free_since < PATIENCE
        room = self.window.room(self._in_hand, self.bytes_in_flight, patient=patient)
        if self.too_large and not self._in_hand:
            room = ANY_SIZE
        if room is None:
            return
        batch = self._paced(room.batch)
        if self.line is not None and not (batch := self.line.batch(batch, now)):
            return
        self.free_since, self.brought = None, False
        try:
            await self.inbox.pull(batch, self._expires(now), room.max_bytes)
        except Unavailable:
            self.not_before = now + PAUSE

    @property
    def _in_hand(self) -> int:
        return len(self.tasks) - (self.line.waiting if self.line is not None else 0)

    def _paced(self, batch: int) -> int:
        if not self.lease.bits_per_second:
            return batch
        burst = self.lease.bits_per_second / 8 * BURST
        return min(batch, max(1, int(burst / (self.last_size or self.window.largest))))

    def _expires(self, now: float) -> timedelta:
        """How long a pull may stay open: while nothing is in a subscriber's hands, as long as the lease lingers."""
        quiet = 0.0 if self.tasks else now - self.arrived
        wait = self.lease.linger - quiet if quiet < self.lease.linger else self.lease.linger
        return timedelta(seconds=min(max(wait, SHORTEST_PULL), self._left()))

    def _nap(self) -> float:
        """Seconds until something changes by itself: the lease ends, a pause is over, patience is lost."""
        now = self.effects.monotonic()
        moments = [self._left(), self.lease.linger + SHORTEST_PULL]
        pauses = (self.not_before, self.line.not_before if self.line is not None else 0.0)
        moments += [until - now for until in pauses if until > now]
        if self.free_since is not None and now - self.free_since < PATIENCE:
            moments.append(PATIENCE)
        return max(0.001, min(moments))

    def _left(self) -> float:
        return self.began + self.lease.seconds - self.effects.monotonic()

    def _idle(self) -> bool:
        """Has nothing come for `linger`, though it was asked for, and is nothing in a subscriber's hands?"""
        now = self.effects.monotonic()
        waits = self.inbox.pulling or self.too_large
        # While a rate limit forbids to ask, that nothing comes says nothing.
        return not self.tasks and not waits and now - max(self.arrived, self.paid_until) >= self.lease.linger

    def on_end(self, end: PullEnd) -> None:
        self.too_large = end is PullEnd.FILLED and not self.brought
        if end is PullEnd.BROKEN or self.too_large:
            self.not_before = max(self.not_before, self.effects.monotonic() + PAUSE)
        elif end in (PullEnd.GONE, PullEnd.OUSTED):
            self.over = True
        self.changed.set()

    def on_message(self, message: Message) -> None:
        self.arrived, self.brought = self.effects.monotonic(), True
        self.last_size = message.size
        if self.gaps is not None and (gone := self.gaps.seen(message)):
            self.tally.count(Outcome.DISCARDED, gone)
        if self.lease.bits_per_second:
            self.paid_until = max(self.arrived, self.paid_until) + message.size * 8 / self.lease.bits_per_second
            self.not_before = max(self.not_before, self.paid_until)
        self.bytes_in_flight += self.last_size
        if self.straight_way is not None and not self._leaving:
            straight = self.straight_way.begin(message)
            if straight is not None:
                self.tasks.add(straight)
                return
        self._begin(message, self._work(message))

    def on_straight(self, straight: Straight, answer: HttpAnswer | None) -> None:
        """The short way of an event is over; if there is more to do than to count it, a task does that."""
        self.tasks.discard(straight)
        message = straight.message
        if answer is None:
            self.bytes_in_flight -= message.size
            self._wake()
        else:
            see_through = partial(judge, message, self.subscriber, self.effects, self.tally, answer)
            self._begin(message, self._held(message, see_through))

    def _begin(self, message: Message, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, message))

    def _wake(self) -> None:
        """Have the lease look again, unless all it could do is to wait for its open pull, or for more freed slots."""
        if not self._leaving:
            if self.inbox.pulling:
                # Which tells of its end.
                return
            patient = self.free_since is not None and self.effects.monotonic() - self.free_since < PATIENCE
            if patient and self._in_hand > self.window.crowded:
                # The nap ends with the patience.
                return
        self.changed.set()

    @property
    def _leaving(self) -> bool:
        return self.over or self.stop.is_set()

    def _work(self, message: Message) -> Coroutine[None, None, None]:
        if self._leaving:
            return self._give_back(message)
        if self.line is not None:
            return self._held(message, self.line.take(message))
        return self._held(message, partial(deliver, message, self.subscriber, self.effects, self.tally))

    async def _held(self, message: Message, see_through: Callable[[], Awaitable[None]]) -> None:
        self.effects.hold(message)
        try:
            await see_through()
        finally:
            self.effects.release(message)

    async def _give_back(self, message: Message) -> None:
        await self.effects.settle(message, jetstream.NAK)
        self.tally.count(Outcome.RETURNED)

    def _done(self, task: asyncio.Task[None], message: Message) -> None:
        self.tasks.discard(task)
        self.bytes_in_flight -= message.size
        self._wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            # Unsettled, so the server redelivers it after the ack wait: one event's trouble is its own.
            self.tally.count(Outcome.UNSETTLED)
            self.effects.report(Outcome.UNSETTLED, message, words(error))
