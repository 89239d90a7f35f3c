"""The pull requests that wait at one consumer: which of them gets a message, and how each ends.

Knows the server's statuses to the letter, and the pin of a by-key consumer. Does not know messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.model import blocks, pull_request
from tests.simulation.model.pin import Pin
from tests.simulation.model.pull_request import Pull, Refusal


class Pulls:
    """The queue of one consumer.

    Attributes:
        waiting: the requests, the next to be served first.
        pin: of the one client that is served.
        active_at: when somebody last asked, on the loop's clock.
    """

    def __init__(
        self,
        config: Callable[[], dict[str, Any]],
        tell: Callable[[str, bytes], None],
        listens: Callable[[str], bool],
        last: Callable[[], tuple[int, int]],
        on_unpinned: Callable[[], None],
        now: Callable[[], int],
        random: Random,
    ) -> None:
        """Args:
        config: the consumer's, as it is now.
        tell: sends a status to a reply subject.
        listens: does anybody listen there?
        last: the consumer's last delivery and sequence, for heartbeats.
        on_unpinned: the pin has run out.
        now: nanoseconds since the epoch.
        """
        self.waiting: deque[Pull] = deque()
        self.pin = Pin(now, on_unpinned, random)
        self.active_at = asyncio.get_running_loop().time()
        self._config = config
        self._tell = tell
        self._listens = listens
        self._last = last

    def add(self, reply: str, request: bytes, count: int) -> None:
        """Take a request, or refuse it.

        Args:
            count: messages that the consumer still has to deliver, redeliveries included.
        """
        pull, refusal = pull_request.read(reply, request)
        refusal = refusal or pull_request.beyond(self._config(), pull) or self._pinned(pull)
        if refusal:
            return self._refuse(reply, *refusal)
        now = asyncio.get_running_loop().time()
        if pull.no_wait:
            if count == 0 and pull.until is None:
                self.active_at = now
                return self._refuse(reply, 404, "No Messages")
            if count > 0:
                asked = self.expire(False)
                if count < asked:
                    self.active_at = now
                    return self._refuse(reply, 408, "Requests Pending")
        if len(self.waiting) >= self._config()["max_waiting"]:
            if not pull.beat:
                self._refuse(reply, 409, "Exceeded MaxWaiting")
            return None
        self.waiting.append(pull)
        self.active_at = now
        return None

    def next(self, size: int) -> Pull | None:
        """The request that gets a message of this size; those that can't are ended, or passed over."""
        new_pin = not self.pin.id and self._config().get("priority_policy") == "pinned_client"
        passed, now = 0, asyncio.get_running_loop().time()
        while self.waiting:
            pull = self.waiting[0]
            if pull.until is not None and now >= pull.until:
                self._end(408, "Request Timeout")
                continue
            assigned = False
            if new_pin:
                if pull.pin:
                    self._end(423, "Nats-Wrong-Pin-Id")
                    continue
                pull.pin = self.pin.assign(self._config()["priority_timeout"])
                assigned = True
            elif self.pin.id and pull.pin != self.pin.id:
                if pull.pin:
                    self._end(423, "Nats-Wrong-Pin-Id")
                    continue
                self.waiting.rotate(-1)
                passed += 1
                if passed >= len(self.waiting):
                    return None
                continue
            if pull.size > 0:
                if size > pull.size:
                    if assigned:
                        self.pin.let_go()
                    self._end(409, "Message Size Exceeds MaxBytes")
                    continue
                pull.size -= size
                if pull.size == 0:
                    pull.left = 1
            if self._listens(pull.reply):
                return self._served(pull)
            self.waiting.popleft()
        return None

    def expire(self, at_end: bool) -> int:
        """End those whose time is up, and those that nobody listens to; the messages that the rest asks for.

        Args:
            at_end: there is nothing to deliver now: requests that do not wait end, too.
        """
        now, asked = asyncio.get_running_loop().time(), 0
        for pull in list(self.waiting):
            if pull.until is not None and now > pull.until:
                self._finish(pull, 408, "Request Timeout")
            elif at_end and pull.no_wait and (pull.until is None or pull.brought > 0):
                self.waiting.remove(pull)
                self._tell(pull.reply, blocks.status(404, "No Messages"))
            elif not self._listens(pull.reply):
                self.waiting.remove(pull)
            else:
                asked += pull.left
                if pull.beat and now > pull.next_beat:
                    pull.next_beat, pull.beaten = now + pull.beat, True
                    self._beat(pull)
        return asked

    def next_look(self) -> float | None:
        """When the next request expires or wants its heartbeat, on the loop's clock."""
        times = [pull.until for pull in self.waiting if pull.until is not None]
        times += [pull.next_beat for pull in self.waiting if pull.beat]
        return min(times, default=None)

    def release(self) -> None:
        """The consumer is deleted: all that wait are told."""
        waiting, self.waiting = self.waiting, deque()
        for pull in waiting:
            if self._listens(pull.reply):
                self._tell(pull.reply, blocks.status(409, "Consumer Deleted"))
        self.pin.let_go()

    def _beat(self, pull: Pull) -> None:
        delivery, sequence = self._last()
        lines = ("Nats-Last-Consumer", delivery), ("Nats-Last-Stream", sequence)
        self._tell(pull.reply, blocks.status(100, "Idle Heartbeat", *lines))

    def _pinned(self, pull: Pull) -> Refusal | None:
        config = self._config()
        by_pin = config.get("priority_policy") == "pinned_client"
        if pull.pin and not by_pin:
            return 400, "Bad Request - Not a Pinned Client Priority consumer"
        if not by_pin:
            return None
        if not pull.group:
            return 400, "Bad Request - Priority Group missing"
        if pull.group not in config["priority_groups"]:
            return 400, "Bad Request - Invalid Priority Group"
        if self.pin.id and pull.pin == self.pin.id:
            self.pin.hold(config["priority_timeout"])
        elif self.pin.id and pull.pin:
            return 423, "Nats-Pin-Id mismatch"
        return None

    def _served(self, pull: Pull) -> Pull:
        """Count one message; a request that wants more goes to the end of the queue."""
        pull.brought += 1
        pull.left -= 1
        if pull.left <= 0:
            self.waiting.popleft()
            return pull
        pull.next_beat, pull.beaten = asyncio.get_running_loop().time() + pull.beat, False
        self.waiting.rotate(-1)
        return pull

    def _end(self, code: int, words: str) -> None:
        self._finish(self.waiting[0], code, words)

    def _finish(self, pull: Pull, code: int, words: str) -> None:
        self.waiting.remove(pull)
        left = ("Nats-Pending-Messages", pull.left), ("Nats-Pending-Bytes", pull.size)
        self._tell(pull.reply, blocks.status(code, words, *left))

    def _refuse(self, reply: str, code: int, words: str) -> None:
        self._tell(reply, blocks.status(code, words))
