"""The pulling of a lease.

A lease pulls until its time is up, until it is told to stop, or until nothing has come for `linger` seconds and nothing
is in a subscriber's hands. It then finishes the events in subscribers' hands and gives back those that wait or still
arrive. It never asks for more messages than it can hand on at once or, to a quick subscriber, in a moment
(`headrace.core.delivery.ahead`), and only a lease asks for messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from headrace.core.delivery.ahead import AHEAD_SECONDS, Ahead
from headrace.core.delivery.byte_pool import BytePool, Share
from headrace.core.delivery.gaps import Gaps
from headrace.core.delivery.lease import Lease, Outcome, Tally
from headrace.core.delivery.pace import Pace
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.delivery.window import ANY_SIZE, Room, Window
from headrace.core.errors import Unavailable
from headrace.core.http import HttpAnswer
from headrace.core.nats import jetstream
from headrace.core.nats.jetstream import Message
from headrace.core.nats.pull_status import PullEnd
from headrace.forward.line import TWIN_PAUSE, Line
from headrace.forward.one_event import deliver, judge
from headrace.forward.ports import Effects, Inbox
from headrace.forward.reading import words
from headrace.forward.short_way import Handover, ShortWay

# All in seconds. For this time freed slots are gathered before a pull for fewer than a quarter of the window.
PATIENCE = 0.02
# The pause after a pull that broke.
PAUSE = 0.25
OTHERS_PAUSE = 0.05  # the pause for other leases to settle something: nothing notifies this one
# A shorter pull would end before the server has looked at it.
SHORTEST_PULL = 0.05
# So many pulls in a row that break off, at intervals of PAUSE, are more than an election or a restart.
MOST_BROKEN = 8


async def forward(
    lease: Lease,
    subscriber: Subscriber,
    largest: int,
    effects: Effects,
    stop: asyncio.Event,
    gaps: Gaps | None = None,
    pool: BytePool | None = None,
) -> Tally:
    """Serve one lease.

    Args:
        lease: its clamped arguments.
        subscriber: from the consumer's metadata; READY.
        largest: bytes of the largest message that the server takes, its envelope included.
        stop: set when the caller has gone away or the host drains.
        gaps: counts events that the server discarded; None for a filtered consumer: its sequences have gaps anyway.
        pool: the bytes that all leases of this process share; None when there are no other leases.

    Returns:
        The tally; its `refused` says why the server refused the pulls.

    Raises:
        Unavailable: NATS is away, nothing was pulled.
    """
    window = Window(lease.max_in_flight, lease.max_bytes, largest)
    with (pool or BytePool(lease.max_bytes)).share() as share:
        return await _serve(_Run(lease, subscriber, window, effects, stop, gaps, share))


async def _serve(run: _Run) -> Tally:
    effects, subscriber = run.effects, run.subscriber
    if effects.survey is not None:
        run.line = Line(subscriber, run.window.within(run.share.fair), effects, run.tally, run.changed.set)
    elif effects.short_way is not None and subscriber.subscriber is not None:
        run.short_way = ShortWay(subscriber, effects, effects.short_way, run.tally, run.on_handed_over)
    run.inbox = await effects.open_inbox(run.on_message, run.on_end)
    try:
        await run.pull_until_over()
        await run.finish()
    finally:
        run.leave()
        for message in run.waiting:
            effects.release(message)
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
    share: Share
    # The deliveries under way: tasks on the long way, `Handover` on the short one.
    tasks: set[asyncio.Task[None] | Handover] = field(default_factory=set)
    # Messages that were pulled ahead, in the order of their coming.
    waiting: deque[Message] = field(default_factory=deque)
    over: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    # When the next pull could first be sent; None while one is open or no slot is free.
    free_since: float | None = None
    not_before: float = 0.0
    last_size: int = 0  # of the latest message, as the estimate for the next
    # Has the latest pull brought anything? A pull that ends as filled and brought nothing met a message above its
    # `max_bytes`.
    brought: bool = False
    asked_at: float = 0.0  # when it was sent
    broken: int = 0  # pulls in a row that broke off
    too_large: bool = False
    # A by-key consumer has a line, any other may have a short way.
    line: Line | None = None
    short_way: ShortWay | None = None
    tally: Tally = field(init=False)
    pace: Pace = field(init=False)
    ahead: Ahead = field(init=False)
    inbox: Inbox = field(init=False)
    began: float = field(init=False)
    arrived: float = field(init=False)

    def __post_init__(self) -> None:
        self.tally = self.effects.tally
        self.began = self.arrived = self.effects.monotonic()
        self.pace = Pace(self.lease.bits_per_second)
        self.ahead = Ahead(self.lease.max_ahead)

    async def pull_until_over(self) -> None:
        stopping = asyncio.create_task(self.stop.wait())
        stopping.add_done_callback(lambda _: self.changed.set())
        try:
            while not self.over and not self.stop.is_set():
                self.changed.clear()
                now = self.effects.monotonic()
                await self._top_up(now)
                with suppress(TimeoutError):
                    # The same reading of the clock as above, or a pause that ran out in between would be overlooked.
                    async with asyncio.timeout(self._nap(now)):
                        await self.changed.wait()
                self.over = self.over or self._left() <= 0 or self._idle()
        finally:
            self.over = True
            stopping.cancel()

    async def finish(self) -> None:
        """Give up the open pull, and wait for the events in subscribers' hands."""
        self.leave()
        while self.waiting:
            self._start_next()
        await self.inbox.stop()
        while self.tasks:
            self.changed.clear()
            await self.changed.wait()

    def leave(self) -> None:
        if self.line is not None:
            self.line.leave()

    async def _top_up(self, now: float) -> None:
        if self.line is None and not self.inbox.pulling:
            self._look_ahead(now)
        if self.inbox.pulling or self._held_events >= self.window.most:
            self.free_since = None
            return
        if now < self.not_before or self._left() < SHORTEST_PULL:
            return
        if self.free_since is None:
            self.free_since = now
        patient = now - self.free_since < PATIENCE
        room = self._room(now, patient=patient)
        if room is None:
            return
        batch = self.pace.batch(room.batch, self.last_size or self.window.largest)
        if self.line is not None and not (batch := self.line.batch(batch, now)):
            return
        self.free_since, self.brought, self.asked_at = None, False, now
        self.share.ask(room.max_bytes or self.window.largest)
        try:
            await self.inbox.pull(batch, self._expires(now), room.max_bytes)
        except Unavailable:
            self.share.ended()
            self.not_before = now + PAUSE

    def _look_ahead(self, now: float) -> None:
        self.ahead.look(self.tally.counts[Outcome.DELIVERED], now)
        # What waits when the time is up is given back, and comes again.
        events = self.ahead.events if self._left() > 2 * AHEAD_SECONDS else 0
        if events != self.window.ahead:
            self.window = replace(self.window, ahead=events)

    def _room(self, now: float, *, patient: bool) -> Room | None:
        """The room of the next pull, by the limits of the lease and the bytes of all leases; None: wait."""
        room = self.window.room(self._held_events, self.share.held, patient=patient)
        granted = self.share.grant(room.max_bytes) if room is not None else None
        # The best guess is that the next message is as large as the last. If the server's limit is below that, a pull
        # within the limit would bring nothing, again and again.
        enough = granted is not None and min(granted, self.inbox.most_bytes or granted) >= self.last_size
        if not self._held_events and (self.too_large or not enough):
            if self.share.may_ask_for_any(self.window.largest):
                return ANY_SIZE
            # The lease must not end as idle while it can't even ask.
            self.arrived, self.not_before = now, now + OTHERS_PAUSE
        elif room is not None and granted is not None and enough:
            return Room(room.batch, granted)
        return None

    @property
    def _held_events(self) -> int:
        """The events in hand, and those pulled ahead; not those that wait in a line."""
        return len(self.tasks) + len(self.waiting) - (self.line.waiting if self.line is not None else 0)

    def _expires(self, now: float) -> timedelta:
        """How long a pull may stay open: as long as the lease lingers, if nothing is in a subscriber's hands."""
        quiet = 0.0 if self.tasks else now - self.arrived
        wait = self.lease.linger - quiet if quiet < self.lease.linger else self.lease.linger
        return timedelta(seconds=min(max(wait, SHORTEST_PULL), self._left()))

    def _nap(self, now: float) -> float:
        """Seconds until something changes by itself: the lease ends, a pause is over, or patience runs out."""
        moments = [self._left(), self.lease.linger + SHORTEST_PULL]
        pauses = (self.not_before, self.line.not_before if self.line is not None else 0.0)
        moments += [until - now for until in pauses if until > now]
        if self.free_since is not None and now - self.free_since < PATIENCE:
            moments.append(PATIENCE)
        return max(0.001, min(moments))

    def _left(self) -> float:
        return self.began + self.lease.seconds - self.effects.monotonic()

    def _idle(self) -> bool:
        """Have pulls brought nothing for `linger`, and is nothing in a subscriber's hands?"""
        now = self.effects.monotonic()
        waits = self.inbox.pulling or self.too_large
        # While a rate limit forbids to ask, silence is no sign of idleness.
        return not self.tasks and not waits and now - max(self.arrived, self.pace.paid_until) >= self.lease.linger

    def on_end(self, end: PullEnd) -> None:
        self.share.ended()
        self.too_large = end is PullEnd.FILLED and not self.brought
        self.broken = self.broken + 1 if end is PullEnd.BROKEN and not self.brought else 0
        self.tally.broken = self.inbox.said if self.broken >= MOST_BROKEN else ""
        if end is PullEnd.BROKEN and self.line is not None:
            self.line.broke()
        if end is PullEnd.BROKEN or self.too_large:
            self._not_before(self.effects.monotonic() + PAUSE)
        elif end is PullEnd.EXPIRED and not self.brought:
            # The server may allow only shorter pulls, and we would ask it without a pause.
            self._not_before(self.asked_at + SHORTEST_PULL)
        elif end is PullEnd.REFUSED:
            self.tally.refused, self.over = self.inbox.said, True
        elif end in (PullEnd.GONE, PullEnd.OUSTED):
            self.over = True
        self.changed.set()

    def _not_before(self, moment: float) -> None:
        self.not_before = max(self.not_before, moment)

    def on_message(self, message: Message) -> None:
        self.arrived, self.brought = self.effects.monotonic(), True
        self.last_size = message.size
        self.tally.latest = message.reply
        if self.gaps is not None and (gone := self.gaps.seen(message)):
            self.tally.count(Outcome.DISCARDED, gone)
        self.pace.came(self.last_size, self.arrived)
        self._not_before(self.pace.paid_until)
        self.share.came(self.last_size)
        if self.line is None and len(self.tasks) >= self.window.slots and not self._leaving:
            self.effects.hold(message)
            self.waiting.append(message)
        else:
            self._start(message)

    def _start(self, message: Message) -> None:
        """Hand a message on, or give it back if the lease pulls no more."""
        if self.short_way is not None and not self._leaving:
            handover = self.short_way.begin(message)
            if handover is not None:
                self.tasks.add(handover)
                return
        self._begin(message, self._work(message))

    def _start_next(self) -> None:
        message = self.waiting.popleft()
        self.effects.release(message)
        self._start(message)

    def on_handed_over(self, handover: Handover, answer: HttpAnswer | None) -> None:
        """End the short way of an event; if the answer has not settled it, a task goes on from that answer."""
        self.tasks.discard(handover)
        message = handover.message
        if answer is None:
            self._over_with(message)
        else:
            see_through = partial(judge, message, self.subscriber, self.effects, self.tally, answer)
            self._begin(message, self._held(message, see_through))

    def _begin(self, message: Message, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, message))

    def _over_with(self, message: Message) -> None:
        """A message is out of this lease's hands: the next takes its place."""
        self.share.settled(message.size)
        if self.waiting:
            self._start_next()
        self._wake()

    def _wake(self) -> None:
        """Make the lease look again, unless it could only wait for its open pull or for more freed slots."""
        if not self._leaving:
            if self.inbox.pulling:
                return  # `on_end` wakes the lease.
            if not self.tasks:  # It could not ask while all slots were in hand, so the silence says nothing.
                self.arrived = self.effects.monotonic()
            patient = self.free_since is not None and self.effects.monotonic() - self.free_since < PATIENCE
            if patient and self._held_events > self.window.crowded:
                return  # The nap ends with the patience.
        self.changed.set()

    @property
    def _leaving(self) -> bool:
        return self.over or self.stop.is_set()

    def _work(self, message: Message) -> Coroutine[None, None, None]:
        if self._leaving:
            return self._give_back(message)
        if message.delivered > 1 and self.line is None and self.effects.in_hand(message):
            # This process or the server stood still for longer than the ack wait; this delivery will come again.
            return self._give_back(message, jetstream.nak(TWIN_PAUSE))
        if self.line is not None:
            return self._held(message, self.line.take(message))
        return self._held(message, partial(deliver, message, self.subscriber, self.effects, self.tally))

    async def _held(self, message: Message, see_through: Callable[[], Awaitable[None]]) -> None:
        self.effects.hold(message)
        try:
            await see_through()
        finally:
            self.effects.release(message)

    async def _give_back(self, message: Message, payload: bytes = jetstream.NAK) -> None:
        await self.effects.settle(message, payload)
        self.tally.count(Outcome.RETURNED)

    def _done(self, task: asyncio.Task[None], message: Message) -> None:
        self.tasks.discard(task)
        self._over_with(message)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The event stays unsettled: the server redelivers it after the ack wait, and the lease goes on with others.
            self.tally.count(Outcome.UNSETTLED)
            self.effects.report(Outcome.UNSETTLED, message, words(error))
