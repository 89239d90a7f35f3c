"""The order of a by-key consumer in one lease: which message waits, which goes, which is given back.

It carries out the decisions of `headrace.core.delivery.order`. A lease begins with a take-over: before any event with a
key goes, each event that an earlier lease left unsettled must have come back, or its stage record must say that it
waits. Until then the lease pulls sparingly, since fresh events would only fill the room of those that wait. After a
pull that broke it takes over from itself: what was on the wire is lost, and comes again behind later events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar, assert_never

from headrace.core.delivery import parked, stage_record
from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.order import Changes, Go, Order, Postpone, Twin, Verdict, Wait
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.delivery.window import Window
from headrace.core.errors import InvalidEvent, Refused, Unavailable
from headrace.core.nats import jetstream
from headrace.core.nats.jetstream import ACK_WAIT, Message
from headrace.forward.one_event import deliver, postpone
from headrace.forward.ports import Effects, Survey
from headrace.forward.reading import event_in

_Found = TypeVar("_Found")

# Seconds, as all below. Events of a broken lease come back within the ack wait of 8 s; we wait no longer for any.
LONGEST_TAKE_OVER = ACK_WAIT.total_seconds() + 2.0
FIRST_LOOK, LONGEST_LOOK = 0.02, 0.5
# Pauses: after a pull that brought a fresh event during a take-over, and after a pull past the waiting messages that
# brought one more message to wait.
CARE, LOOK_PAST = 0.25, 0.1
# The server redelivers a little after the due time. An earlier pull brings a fresh event instead; then this pause.
LATE, TOO_EARLY = 0.02, 0.04
# When no waiting message could go for so long, the lease looks for messages of other keys behind them. With little room
# left each of those costs a record and a redelivery, so it is better to wait longer for a back-off that may end soon.
STUCK, STUCK_CROWDED = 0.5, 2.0
# Messages that may wait in memory, beside those in hand: up to so many of one key hold up no other key.
ROOM = 1000
# The delay of a message that came again while it was in hand.
TWIN_PAUSE = ACK_WAIT / 4


class GivenBack:
    """The verdict on a message that still waits when its lease ends."""


class Line:
    """The messages of one lease; `wake` is called when more may be pulled.

    Attributes:
        not_before: no pull until then, on the monotonic clock.
    """

    def __init__(
        self, subscriber: Subscriber, window: Window, effects: Effects, tally: Tally, wake: Callable[[], None]
    ) -> None:
        assert effects.survey is not None, "a by-key consumer is served with a survey"
        self._subscriber = subscriber
        self._slots = window.slots
        self._hands = asyncio.Semaphore(window.slots)
        self._ack = effects.ack
        self._effects = replace(effects, ack=self._settle)
        self._survey: Survey = effects.survey
        # Messages whose ack is on its way, or was lost on it: the server may count them no more.
        self._settling: set[int] = set()
        self._tally = tally
        self._wake = wake
        # Half of the bytes are for messages in hand, and the largest message must always find room.
        most_bytes = max(0, (window.budget - window.largest) // 2)
        self._order = Order(ROOM, most_bytes)
        self._waiting: dict[int, asyncio.Future[Go | Postpone | GivenBack | Twin]] = {}
        self._taking_over: asyncio.Task[None] | None = None
        # Have the records been read since the line was last open? Until it opens again nobody writes one that it does
        # not know, however often a pull breaks and the take-over begins anew.
        self._is_read = False
        self._careful = 1
        # Did the latest pull go past the waiting messages, to look for other keys?
        self._looking = False
        self._moved_at = effects.monotonic()
        self._pause = self.not_before = 0.0

    @property
    def waiting(self) -> int:
        """How many messages wait here, in no subscriber's hands."""
        return self._order.here

    def batch(self, wanted: int, now: float) -> int:
        """How many messages to pull now; 0 for none until `not_before`."""
        if now < self._pause:
            self.not_before = self._pause
            return 0
        looked, self._looking = self._looking, False
        if not self._order.open:
            return min(wanted, self._careful)
        if ahead := self._order.ahead:
            return min(wanted, ahead)
        wall = self._now() - LATE
        if back := self._order.returning(wall):
            # The server delivers due messages before fresh ones, but it may pick others that were given back, too.
            self._careful = 1 if looked else self._careful
            return min(wanted, max(back, self._careful))
        look = self._moved_at + (STUCK_CROWDED if self._order.crowded else STUCK)
        if now >= look:
            self._careful = self._careful if looked else 1
            self._looking = True
            return min(wanted, self._careful, max(1, ROOM - self._order.here))
        due = self._order.next_due
        self.not_before = look if due is None else min(look, now + due - wall)
        return 0

    def take(self, message: Message) -> Callable[[], Awaitable[None]]:
        """Take in a message as soon as it has come, so that the next pull accounts for it.

        Returns:
            The rest of its way, to be awaited: to its subscriber when its turn comes, or back to the server.
        """
        key = self._key(message)
        self._settling.discard(message.sequence)
        first = self._order.arrived(message.sequence, key, message.size, self._now())
        self._take_care(message, first)
        turn: asyncio.Future[Go | Postpone | GivenBack | Twin] = asyncio.get_running_loop().create_future()
        if isinstance(first, Wait):
            self._waiting[message.sequence] = turn
        else:
            turn.set_result(first)
        return partial(self._see_through, message, key, turn)

    async def _see_through(
        self, message: Message, key: str | None, turn: asyncio.Future[Go | Postpone | GivenBack | Twin]
    ) -> None:
        verdict = await turn
        match verdict:
            case Go():
                await self._go(message, key)
            case Postpone(due):
                await postpone(message, self._subscriber, self._effects, self._tally, key, due)
            case Twin():
                await self._effects.settle(message, jetstream.nak(TWIN_PAUSE))
            case GivenBack():
                await self._effects.settle(message, jetstream.NAK)
                self._tally.count(Outcome.RETURNED)
            case _:
                assert_never(verdict)

    def broke(self) -> None:
        """Take over once more, after a pull that broke: events that were on their way may have to come again first."""
        if self._taking_over is not None:
            self._taking_over.cancel()
            self._order.open = False
            self._begin_take_over()

    def leave(self) -> None:
        """End the line: give back the waiting messages."""
        if self._taking_over is not None:
            self._taking_over.cancel()
        for future in self._waiting.values():
            if not future.done():
                future.set_result(GivenBack())
        self._waiting.clear()

    async def _go(self, message: Message, key: str | None) -> None:
        sequence = message.sequence
        try:
            async with self._hands:
                await deliver(message, self._subscriber, self._effects, self._tally, key)
        except BaseException:
            # An unsettled message comes again after the ack wait; those behind it can't go before.
            self._apply(self._order.away(sequence, self._now() + ACK_WAIT.total_seconds(), self._now()))
            raise
        self._settling.discard(sequence)
        due = self._tally.due.get(sequence)
        if due is None:
            self._apply(self._order.settled(sequence, self._now()))
        else:
            self._apply(self._order.away(sequence, due, self._now()))

    async def _settle(self, message: Message) -> None:
        self._settling.add(message.sequence)
        await self._ack(message)

    def _apply(self, changes: Changes) -> None:
        for sequence, verdict in changes:
            future = self._waiting.pop(sequence, None)
            if future is not None and not future.done():
                future.set_result(verdict)
        if changes:
            self._moved_at = self._effects.monotonic()
            self._pause = self.not_before = 0.0
            self._wake()

    def _take_care(self, message: Message, verdict: Verdict | Twin) -> None:
        """Pull more after a message that was worth its pull, less after a message that only fills the room."""
        if self._taking_over is None:
            self._begin_take_over()
        fresh = message.delivered == 1
        if not self._order.open:
            worth, pause = not fresh, CARE
        elif self._order.ahead:
            self._careful = 1
            return
        elif self._looking:
            # A message that finds room costs nothing.
            worth, pause = isinstance(verdict, Go | Wait), LOOK_PAST
        elif isinstance(verdict, Go):
            self._careful = 1
            return
        else:
            # A redelivered message may stand before the returning ones; a fresh one says that they aren't back yet.
            worth, pause = not fresh, TOO_EARLY
        if worth:
            self._careful = min(2 * self._careful, self._slots)
        else:
            self._careful = 1
            self._pause = self._effects.monotonic() + pause

    def _begin_take_over(self) -> None:
        self._taking_over = asyncio.create_task(self._take_over(), name="take-over")

    async def _take_over(self) -> None:
        """Wait until every event that was left unsettled before is accounted for."""
        ends = self._effects.monotonic() + LONGEST_TAKE_OVER
        pause = FIRST_LOOK
        while (missing := await self._missing()) and self._effects.monotonic() < ends:
            if not self._is_read:
                self._is_read = await self._read_records()
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
        if missing:
            self._survey.overdue(missing)
        self._is_read = False
        self._apply(self._order.opened(self._now()))
        self._careful = 1
        self._pause = self.not_before = 0.0
        self._wake()

    async def _missing(self) -> int:
        """How many events are unaccounted for; 1 when NATS can't be asked."""
        asked = self._order.known() - self._settling
        unsettled = await _known(self._survey.unsettled())
        # An ack that was sent meanwhile may have overtaken the question, on a connection that has just come back.
        return 1 if unsettled is None else self._order.missing(unsettled, asked - self._settling)

    async def _read_records(self) -> bool:
        now, most = self._now(), self._subscriber.policy.longest_wait.total_seconds()
        records = await _known(self._survey.records())
        if records is None:
            await asyncio.sleep(FIRST_LOOK)
            return False
        for sequence, record in records:
            # An overdue event is on its way, or was settled just before its record could be deleted.
            ahead = stage_record.ahead(record, now, most)
            if ahead > 0:
                self._order.expect(sequence, record.key, now + ahead)
        return True

    def _key(self, message: Message) -> str | None:
        if parked.is_for_another(message):
            return None
        event = event_in(message)
        return None if isinstance(event, InvalidEvent) else event.attributes.get(self._subscriber.order.key)

    def _now(self) -> float:
        return self._effects.now().timestamp()


async def _known(question: Awaitable[_Found]) -> _Found | None:
    """The answer of NATS; None when there is none, or it can't be understood: the lease must not wait for ever."""
    try:
        return await question
    except (Refused, Unavailable):
        return None
    except Exception as error:  # noqa: BLE001  # an unforeseen error is reported, and the take-over still ends
        words = {"message": "what an earlier lease left could not be found out", "exception": error}
        asyncio.get_running_loop().call_exception_handler(words)
        return None
