"""One pull consumer: which message goes out next, to which request, and what its INFO says.

`acks` settles what it has delivered; `unsettled` and `pulls` hold its two queues; `saved_state` is what survives.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.simulation.model import blocks
from tests.simulation.model.idleness import Idleness
from tests.simulation.model.pulls import Pulls
from tests.simulation.model.saved_state import Pending, SavedState
from tests.simulation.model.subjects import matches
from tests.simulation.model.unsettled import SECOND, Unsettled

if TYPE_CHECKING:
    from tests.simulation.model.stream import Stream


class Consumer:
    """A consumer of one stream.

    Attributes:
        config: as the server would give it.
        next_sequence, next_delivery: of the message that nobody has had.
        floor_sequence, floor_delivery: all up to here is settled.
    """

    def __init__(self, stream: Stream, name: str, config: dict[str, Any]) -> None:
        self.stream = stream
        self.name = name
        self.config = config
        self.created = stream.server.now()
        self.saved = SavedState()
        self.next_sequence = 1
        self.next_delivery = 1
        self.floor_sequence = 0
        self.floor_delivery = 0
        server = stream.server
        self.unsettled = Unsettled(server.now, self.look)
        self.pulls = Pulls(
            lambda: self.config,
            server.tell,
            server.interest.has,
            self._last,
            self.signal,
            server.now,
            server.random,
        )
        self._expiry: asyncio.TimerHandle | None = None
        self.idleness = Idleness(self)
        self._resume: asyncio.TimerHandle | None = None
        self._pumping: asyncio.Handle | None = None
        self._stalled = False
        self.stopped = False
        # The answer to the first one who makes or changes it; the server takes it when it begins to work.
        self.first_info: dict[str, Any] | None = None

    # Views for those who look on.

    @property
    def pending(self) -> dict[int, Pending]:
        """The delivered messages without an ack, by sequence."""
        return self.unsettled.pending

    @property
    def delivered(self) -> int:
        """The last delivery's number."""
        return self.next_delivery - 1

    @property
    def is_ahead(self) -> bool:
        """Does it remember more than its stream?"""
        return self.next_delivery > 1 and self.next_sequence - 1 > self.stream.kept.last

    @property
    def counts(self) -> dict[int, int]:
        """How often messages came again."""
        return self.unsettled.counts

    @property
    def waiting(self) -> int:
        """Pull requests that are open."""
        return len(self.pulls.waiting)

    @property
    def filters(self) -> list[str]:
        single = self.config.get("filter_subject")
        return self.config.get("filter_subjects") or ([single] if single else [])

    @property
    def acks(self) -> bool:
        return bool(self.config["ack_policy"] == "explicit")

    @property
    def paused(self) -> bool:
        until = self.config.get("pause_until")
        return bool(until) and self.stream.server.now() < blocks.from_moment(until)

    def sees(self, subject: str) -> bool:
        return not self.filters or any(matches(one, subject) for one in self.filters)

    def wants(self, sequence: int, subject: str) -> bool:
        """Does it still need this message, in a stream that keeps by interest?"""
        if not self.sees(subject):
            return False
        if not self.acks:
            return sequence > self.floor_sequence
        wanted = sequence > self.floor_sequence and (sequence >= self.next_sequence or sequence in self.pending)
        return wanted or sequence in self.counts

    def num_pending(self) -> int:
        """The messages that it has not delivered once."""
        return self.stream.kept.count(self.filters, self.next_sequence)

    # Life.

    def begin(self) -> None:
        """Work: called once it is made or read from its file."""
        self.idleness.rest()
        self._watch_pause()
        if self.pending:
            # The server looks a while after its start, but once at once.
            wait = self.config["ack_wait"]
            self.unsettled.watch(min(wait, (500 + self.stream.server.random.randrange(1000)) * 1_000_000))
            self.look()

    def stop(self) -> None:
        """End all timers; nothing goes out any more."""
        self.stopped = True
        self.unsettled.stop()
        self.pulls.pin.let_go()
        self.idleness.stop()
        for timer in (self._expiry, self._resume, self._pumping):
            if timer is not None:
                timer.cancel()

    def delete(self) -> None:
        self.stop()
        self.pulls.release()
        del self.stream.consumers[self.name]
        self.stream.server.disk.forget(self)

    def edit(self, config: dict[str, Any]) -> None:
        """Take over another configuration that is allowed."""
        before, self.config = self.config, config
        if config.get("ack_wait") != before.get("ack_wait") and self.unsettled.watched:
            self.unsettled.watch(100_000_000)
        if config.get("inactive_threshold", 0) != before.get("inactive_threshold", 0):
            self.idleness.rest()
        self._watch_pause()
        # Nothing else wakes it: one whose pause is taken back goes on with the next pull or message.
        if config.get("max_ack_pending", 0) != before.get("max_ack_pending", 0):
            self.signal()

    def restore(self, state: SavedState) -> None:
        """Go on from a saved state."""
        state = state.copy()
        self.saved = state.copy()
        self.next_sequence, self.next_delivery = state.sequence + 1, state.delivery + 1
        self.floor_sequence, self.floor_delivery = state.floor_sequence, state.floor_delivery
        self.unsettled.pending, self.unsettled.counts = state.pending, state.redelivered
        self.unsettled.queue.clear()

    def reset(self, sequence: int) -> None:
        """Go on at a sequence; what is out comes again, if it lies behind it."""
        self.unsettled.forget()
        self.next_sequence, self.next_delivery = sequence, 1
        self.floor_sequence, self.floor_delivery = sequence - 1, 0
        self.saved = self.state()
        self.note()
        self.signal()

    # What happens to its stream.

    def stored(self, subject: str) -> None:
        """A message has come."""
        if self.pulls.waiting and self.sees(subject):
            self.signal()

    def lost(self, sequence: int, subject: str) -> None:
        """A message was deleted: one that is pending counts as settled."""
        if not self.sees(subject):
            return
        if sequence in self.pending:
            self.settle(sequence, self.pending[sequence].delivery)
        elif sequence in self.counts:
            del self.counts[sequence]
            self.saved.acked(0, sequence)
            self.note()

    def forget_below(self, first: int) -> None:
        """Messages below this one are gone: it does not matter any more how often they came."""
        for counts in (self.counts, self.saved.redelivered):
            for sequence in [one for one in counts if one < first]:
                del counts[sequence]
                self.unsettled.unqueue(sequence)
        self.note()

    def purged(self, first: int, *, wider: bool) -> None:
        """Its stream was purged; what it sees begins at `first` now.

        Args:
            wider: it sees more than was purged.
        """
        self.next_sequence = max(self.next_sequence, first)
        if self.floor_sequence < first:
            self.floor_sequence = first - 1
            for sequence in list(self.pending):
                if sequence > self.floor_sequence and not (wider and sequence not in self.stream.messages):
                    continue
                delivery = self.pending.pop(sequence).delivery
                self.counts.pop(sequence, None)
                self.floor_delivery = max(self.floor_delivery, delivery)
                self.next_delivery = max(self.next_delivery, self.floor_delivery)
                self.saved.acked(delivery, sequence)
        if not self.pending:
            self.counts.clear()
            self.floor_delivery, self.floor_sequence = self.next_delivery - 1, self.next_sequence - 1
        self.unsettled.queue[:] = [one for one in self.unsettled.queue if one >= self.next_sequence]
        self.saved.replace(self.state())
        self.note()

    def settle(self, sequence: int, delivery: int) -> None:
        """An ack, or what counts as one."""
        unsettled = self.unsettled
        full = 0 < self.config.get("max_ack_pending", 0) <= len(unsettled.pending)
        was_pending = sequence in unsettled.pending
        found = unsettled.drop(sequence)
        if found is not None:
            delivery = found.delivery
            self._move_floor(sequence, delivery)
        self.saved.acked(delivery, sequence)
        self.note()
        if was_pending and full:
            self.signal()

    def note(self) -> None:
        """Its saved state has changed: the file follows."""
        self.stream.server.disk.changed(self)

    def state(self) -> SavedState:
        """All that is in memory, as a state to save."""
        numbers = self.next_delivery - 1, self.next_sequence - 1, self.floor_delivery, self.floor_sequence
        return SavedState(*numbers, self.unsettled.pending, self.unsettled.counts).copy()

    def look(self) -> None:
        """Queue what has waited for its ack too long."""
        unsettled = self.unsettled
        if self.stopped:
            return
        first = self.stream.kept.first
        for sequence in [one for one in unsettled.pending if one < first or one <= self.floor_sequence]:
            gone = unsettled.drop(sequence)
            self.floor_sequence = max(self.floor_sequence, sequence)
            if gone is not None:
                self.floor_delivery = max(self.floor_delivery, gone.delivery)
        expired, after = unsettled.expired(self.config["ack_wait"])
        if expired:
            self.signal()
        if unsettled.pending:
            unsettled.watch(after)
        else:
            unsettled.stop()
            unsettled.queue.clear()
            self.floor_delivery, self.floor_sequence = self.next_delivery - 1, self.next_sequence - 1

    # Delivery.

    def signal(self) -> None:
        """There may be something to deliver: see soon, once for all that happens in this turn of the loop."""
        if self._pumping is None and not self.stopped:
            self._pumping = asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = None
        self._stalled = False
        if not self.stopped and self.stream.server.running:
            while not self.paused and self.pulls.waiting and self._deliver_next():
                pass
            self._wait()

    def _deliver_next(self) -> bool:
        sequence, again = self._next()
        if not sequence:
            return False
        message = self.stream.messages[sequence]
        left, count = self.num_pending(), self.counts.get(sequence, 0) + 1 if again else 1
        numbers = f"{count}.{sequence}.{self.next_delivery}.{message.time}.{left}"
        reply = f"$JS.ACK.{self.stream.name}.{self.name}.{numbers}"
        block, data = message.headers, message.data
        if self.config.get("headers_only"):
            block, data = blocks.added(block, ("Nats-Msg-Size", len(data))), b""
        size = len(message.subject.encode()) + len(reply) + len(block) + len(data)
        pull = self.pulls.next(size)
        if pull is None:
            self._put_back(sequence, again)
            return False
        if self.pulls.pin.id:
            block = blocks.added(block, ("Nats-Pin-Id", self.pulls.pin.id))
        delivery, self.next_delivery = self.next_delivery, self.next_delivery + 1
        most = self.config["max_deliver"]
        self.saved.delivered(delivery, sequence, count, message.time, acks=self.acks, most=most)
        self.note()
        if self.acks:
            self.unsettled.track(sequence, delivery, self.config["ack_wait"])
        else:
            self.floor_delivery, self.floor_sequence = delivery, sequence
        self.stream.server.deliver(self, pull.reply, message.subject, reply, block, data)
        if pull.left <= 0 and pull.size > 0:
            lines = ("Nats-Pending-Messages", pull.left), ("Nats-Pending-Bytes", pull.size)
            self.stream.server.tell(pull.reply, blocks.status(409, "Batch Completed", *lines))
        return True

    def _next(self) -> tuple[int, bool]:
        """The next sequence, and whether it goes out again; 0 for none."""
        unsettled = self.unsettled
        while unsettled.queue:
            sequence = unsettled.queue.pop(0)
            unsettled.counts[sequence] = unsettled.counts.get(sequence, 0) + 1
            if sequence in self.stream.messages:
                return sequence, True
            unsettled.uncount(sequence)
            if sequence in unsettled.pending:
                self.settle(sequence, unsettled.pending[sequence].delivery)
        if 0 < self.config.get("max_ack_pending", 0) <= len(unsettled.pending):
            self._stalled = True
            return 0, False
        sequence = self.stream.kept.next(self.filters, self.next_sequence)
        self.next_sequence = (sequence or max(self.stream.kept.last, self.next_sequence - 1)) + 1
        return sequence, False

    def _put_back(self, sequence: int, again: bool) -> None:
        if not again:
            self.next_sequence = sequence
        elif sequence not in self.unsettled.queue:
            self.unsettled.uncount(sequence)
            self.unsettled.again([sequence])

    def _wait(self) -> None:
        self.pulls.expire(not self._stalled)
        at = self.pulls.next_look()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if at is not None:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_at(max(at, loop.time() + 0.001), self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.pulls.expire(True)
        self._pump()

    def _move_floor(self, sequence: int, delivery: int) -> None:
        pending = self.unsettled.pending
        if not pending:
            self.floor_delivery, self.floor_sequence = self.next_delivery - 1, self.next_sequence - 1
        elif delivery == self.floor_delivery + 1:
            self.floor_delivery, self.floor_sequence = delivery, sequence
            after = min((one for one in pending if sequence < one < self.next_sequence), default=0)
            if after and pending[after].delivery > 0:
                self.floor_delivery, self.floor_sequence = pending[after].delivery - 1, after - 1

    def _last(self) -> tuple[int, int]:
        return self.next_delivery - 1, self.next_sequence - 1

    def _watch_pause(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self.paused:
            left = blocks.from_moment(self.config["pause_until"]) - self.stream.server.now()
            self._resume = asyncio.get_running_loop().call_later(left / SECOND, self.signal)
