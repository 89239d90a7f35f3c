"""The pull requests that wait at one consumer: which of them gets a message, and how each ends.

Knows the server's statuses to the letter, and the pin of a by-key consumer. Does not know messages.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.model import blocks
from tests.simulation.model.refusals import Unmodelled
from tests.simulation.model.unsettled import SECOND

_FIELDS = {"batch", "expires", "max_bytes", "no_wait", "idle_heartbeat", "group", "id"}
_PIN_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(eq=False)
class Pull:
    """One request.

    Attributes:
        reply: where messages and its status go.
        left: messages that it may still bring.
        size: bytes that it may still bring; 0 for no limit.
        until: on the loop's clock; None for no end.
        brought: messages so far.
        beat, next_beat: seconds between heartbeats, and when the next is due.
    """

    reply: str
    left: int
    size: int
    until: float | None
    no_wait: bool = False
    group: str = ""
    pin: str = ""
    brought: int = 0
    beat: float = 0.0
    next_beat: float = 0.0


class Pulls:
    """The queue of one consumer.

    Attributes:
        waiting: the requests, the next to be served first.
        pin: the id of the one client that is served; empty without one.
        pinned_at: nanoseconds since the epoch.
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
        self.pin = ""
        self.pinned_at = 0
        self.active_at = asyncio.get_running_loop().time()
        self._config = config
        self._tell = tell
        self._listens = listens
        self._last = last
        self._on_unpinned = on_unpinned
        self._now = now
        self._random = random
        self._pin_timer: asyncio.TimerHandle | None = None

    def add(self, reply: str, request: bytes, count: int) -> None:
        """Take a request, or refuse it.

        Args:
            count: messages that the consumer still has to deliver, redeliveries included.
        """
        pull, refusal = self._read(reply, request)
        refusal = refusal or self._limits(pull) or self._pinned(pull)
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
        new_pin = not self.pin and self._config().get("priority_policy") == "pinned_client"
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
                self._assign(pull)
                assigned = True
            elif self.pin and pull.pin != self.pin:
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
                        self.unpin()
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
                    pull.next_beat = now + pull.beat
                    self._beat(pull)
        return asked

    def next_look(self) -> float | None:
        """When the next request expires or wants its heartbeat, on the loop's clock."""
        times = [pull.until for pull in self.waiting if pull.until is not None]
        times += [pull.next_beat for pull in self.waiting if pull.beat]
        return min(times, default=None)

    @property
    def pin_until(self) -> float | None:
        """When the pin runs out, on the loop's clock; None without one."""
        return self._pin_timer.when() if self._pin_timer is not None else None

    def unpin(self) -> None:
        """The pin is nobody's any more."""
        self.pin = ""
        self.pinned_at = 0
        if self._pin_timer is not None:
            self._pin_timer.cancel()
            self._pin_timer = None

    def release(self) -> None:
        """The consumer is deleted: all that wait are told."""
        waiting, self.waiting = self.waiting, deque()
        for pull in waiting:
            if self._listens(pull.reply):
                self._tell(pull.reply, blocks.status(409, "Consumer Deleted"))
        self.unpin()

    def _beat(self, pull: Pull) -> None:
        delivery, sequence = self._last()
        lines = ("Nats-Last-Consumer", delivery), ("Nats-Last-Stream", sequence)
        self._tell(pull.reply, blocks.status(100, "Idle Heartbeat", *lines))

    def _read(self, reply: str, request: bytes) -> tuple[Pull, tuple[int, str] | None]:
        loop, text = asyncio.get_running_loop(), request.strip()
        if not text:
            return Pull(reply, 1, 0, None), None
        if not text.startswith(b"{"):
            raise Unmodelled(f"a pull request that is not JSON: {request!r}")
        asked = json.loads(text)
        if unknown := asked.keys() - _FIELDS:
            raise Unmodelled(f"the members {sorted(unknown)} of a pull request")
        expires, beat = asked.get("expires", 0) / SECOND, asked.get("idle_heartbeat", 0) / SECOND
        until = loop.time() + expires if expires else None
        pull = Pull(reply, asked.get("batch", 0), asked.get("max_bytes", 0), until, asked.get("no_wait", False))
        pull.group, pull.pin = asked.get("group", ""), asked.get("id", "")
        if beat:
            if beat * 2 > expires:
                return pull, (400, "Bad Request - heartbeat value too large")
            pull.beat, pull.next_beat = beat, loop.time() + beat
        return pull, None

    def _limits(self, pull: Pull) -> tuple[int, str] | None:
        config = self._config()
        if 0 < config.get("max_batch", 0) < pull.left:
            return 409, f"Exceeded MaxRequestBatch of {config['max_batch']}"
        longest = config.get("max_expires", 0)
        if longest and pull.until is not None and pull.until > asyncio.get_running_loop().time() + longest / SECOND:
            return 409, f"Exceeded MaxRequestExpires of {go_duration(longest)}"
        if 0 < config.get("max_bytes", 0) < pull.size:
            return 409, f"Exceeded MaxRequestMaxBytes of {config['max_bytes']}"
        return None

    def _pinned(self, pull: Pull) -> tuple[int, str] | None:
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
        if self.pin and pull.pin == self.pin:
            self._hold_pin()
        elif self.pin and pull.pin:
            return 423, "Nats-Pin-Id mismatch"
        return None

    def _assign(self, pull: Pull) -> None:
        self.pin = pull.pin = "".join(self._random.choices(_PIN_LETTERS, k=22))
        self.pinned_at = self._now()
        self._hold_pin()

    def _hold_pin(self) -> None:
        if self._pin_timer is not None:
            self._pin_timer.cancel()
        seconds = self._config()["priority_timeout"] / SECOND
        self._pin_timer = asyncio.get_running_loop().call_later(seconds, self._pin_out)

    def _pin_out(self) -> None:
        if self.pin:
            self.unpin()
            self._on_unpinned()

    def _served(self, pull: Pull) -> Pull:
        """Count one message; a request that wants more goes to the end of the queue."""
        pull.brought += 1
        pull.left -= 1
        if pull.left <= 0:
            self.waiting.popleft()
        elif len(self.waiting) > 1:
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


def go_duration(nanoseconds: int) -> str:
    """A span as Go writes it, as `1m30s` or `2.5s`."""
    if nanoseconds < SECOND:
        unit, name = next((u, n) for u, n in ((10**6, "ms"), (10**3, "µs"), (1, "ns")) if nanoseconds >= u or u == 1)
        return f"{_decimal(nanoseconds, unit)}{name}"
    hours, rest = divmod(nanoseconds, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    text = f"{hours}h" if hours else ""
    text += f"{minutes}m" if hours or minutes else ""
    return f"{text}{_decimal(rest, SECOND)}s"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)
