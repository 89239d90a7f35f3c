"""One stream: its messages and limits, the identities that it remembers, and its consumers.

`publishing` takes messages in; the API reads and purges. Consumers are told of each message that comes or goes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from tests.simulation.model import blocks
from tests.simulation.model.messages import Messages, Stored
from tests.simulation.model.subjects import matches

if TYPE_CHECKING:
    from tests.simulation.model.consumer import Consumer
    from tests.simulation.model.server import JetStreamModel

MSG_ID = "Nats-Msg-Id"
SECOND = 1_000_000_000


class Stream:
    """A stream.

    Attributes:
        config: as the server would give it.
        created: nanoseconds since the epoch.
        kept: its messages.
        identities: sequence and time of each `Nats-Msg-Id` within the duplicate window.
    """

    def __init__(self, server: JetStreamModel, config: dict[str, Any]) -> None:
        self.server = server
        self.config = config
        self.created = server.now()
        self.kept = Messages(config["storage"] == "memory")
        self.consumers: dict[str, Consumer] = {}
        self.identities: OrderedDict[str, tuple[int, int]] = OrderedDict()
        # Deleted by a limit alone: the file does not say so, and has them until it is empty.
        self._pushed_out: dict[int, Stored] = {}
        self._aging: asyncio.TimerHandle | None = None
        if config.get("first_seq", 0) > 1:
            self.kept.last = config["first_seq"] - 1
            self.kept.first = config["first_seq"]

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def messages(self) -> dict[int, Stored]:
        """All messages by sequence."""
        return self.kept.by_sequence

    def captures(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.config["subjects"])

    def known(self, identity: str) -> int:
        """The sequence of a message with this identity within the window; 0 without one."""
        window = self.config.get("duplicate_window", 0)
        now = self.server.now()
        while self.identities:
            oldest, (_, time) = next(iter(self.identities.items()))
            if now - time < window:
                break
            del self.identities[oldest]
        return self.identities.get(identity, (0, 0))[0]

    def remember(self, identity: str, sequence: int, time: int) -> None:
        if self.config.get("duplicate_window", 0) > 0:
            self.identities[identity] = sequence, time
            self.identities.move_to_end(identity)

    def refusal(self, subject: str, headers: bytes, data: bytes) -> str:
        """Why a stream that discards what is new has no room; empty if it has."""
        config, kept = self.config, self.kept
        if config["discard"] != "new":
            return ""
        per_subject, replaces = config["max_msgs_per_subject"], 0
        if per_subject > 0 and len(kept.of(subject)) + 1 > per_subject:
            if config.get("discard_new_per_subject"):
                return "maximum messages per subject exceeded"
            replaces = kept.of(subject)[0]
        if 0 < config["max_msgs"] <= len(kept) and not replaces:
            return "maximum messages exceeded"
        cost = kept.cost(subject, headers, data)
        if config["max_bytes"] > 0 and kept.size + cost > config["max_bytes"]:
            old = kept.by_sequence.get(replaces)
            if old is None or kept.cost(old.subject, old.headers, old.data) < cost:
                return "maximum bytes exceeded"
        return ""

    def store(self, subject: str, headers: bytes, data: bytes) -> int:
        """Store at the end, and delete what is then beyond the limits; the sequence."""
        config, kept = self.config, self.kept
        sequence = kept.store(Stored(subject, headers, data, self.server.now()))
        self.server.disk.stored(self, sequence)
        while 0 < config["max_msgs_per_subject"] < len(kept.of(subject)):
            self.remove(kept.of(subject)[0], by_limit=True)
        if config["discard"] == "old":
            self.trim()
        self._watch_age()
        return sequence

    def trim(self) -> None:
        """Delete the oldest beyond the limits, after a message or a stricter limit has come."""
        config, kept = self.config, self.kept
        if config["discard"] == "old":
            while 0 < config["max_msgs"] < len(kept) or 0 < config["max_bytes"] < kept.size:
                self.remove(kept.first, by_limit=True)
        self._trim_subjects()

    def _trim_subjects(self) -> None:
        most, kept = self.config["max_msgs_per_subject"], self.kept
        for subject in kept.subjects(">") if most > 0 else ():
            while most < len(kept.of(subject)):
                self.remove(kept.of(subject)[0], by_limit=True)

    def remove(self, sequence: int, *, by_limit: bool = False) -> None:
        """Delete one message; consumers that hold it let it go."""
        message = self.kept.remove(sequence)
        if by_limit:
            self._pushed_out[sequence] = message
        self._forget_pushed_out()
        self.server.disk.removed(self, sequence)
        for consumer in self.consumers.values():
            consumer.lost(sequence, message.subject)

    def purge(self, pattern: str, below: int, keep: int) -> int:
        """Delete many at once; how many.

        Args:
            pattern: of subjects; empty for all.
            below: only sequences below this one; 0 for all.
            keep: so many of the newest stay.
        """
        kept = self.kept
        chosen = kept.selected([pattern] if pattern else [])
        chosen = chosen[: max(0, len(chosen) - keep)] if keep else chosen
        chosen = [one for one in chosen if one < below] if below else chosen
        for sequence in chosen:
            kept.remove(sequence)
            self.server.disk.removed(self, sequence)
        self._forget_pushed_out()
        if not pattern and not below and not keep:
            kept.first = kept.last + 1
        if len(chosen) != 1 or not pattern:
            for consumer in self.consumers.values() if chosen else ():
                consumer.forget_below(kept.first)
        first = kept.next([pattern], kept.first) if pattern else kept.first
        for consumer in self.consumers.values():
            if not pattern or any(matches(pattern, one) for one in consumer.filters):
                consumer.purged(first or kept.last + 1, wider=False)
            elif consumer.sees(pattern):
                consumer.purged(kept.first, wider=True)
            # The server tells of a single message in a thread of its own, which comes late.
            if len(chosen) == 1 and pattern:
                consumer.lost(chosen[0], pattern)
        return len(chosen)

    def settled(self, sequence: int) -> None:
        """A consumer has acked it: where nobody else wants it, a stream that keeps by interest deletes it."""
        if self.config["retention"] == "limits" or sequence not in self.kept.by_sequence:
            return
        subject = self.kept.by_sequence[sequence].subject
        if not any(consumer.wants(sequence, subject) for consumer in self.consumers.values()):
            self.remove(sequence)

    def wanted(self, subject: str) -> bool:
        """Would a stream that keeps by interest store this? Any other stores everything."""
        if self.config["retention"] != "interest":
            return True
        return any(consumer.sees(subject) for consumer in self.consumers.values())

    def expire(self) -> None:
        """Delete what is too old."""
        self._aging = None
        oldest = self.server.now() - self.config["max_age"]
        while self.kept and self.kept.by_sequence[self.kept.first].time <= oldest:
            self.remove(self.kept.first, by_limit=True)
        self._watch_age()

    def state(self) -> dict[str, Any]:
        """The `state` of STREAM.INFO."""
        kept = self.kept

        def stored_at(sequence: int) -> str:
            message = kept.by_sequence.get(sequence)
            return blocks.moment(message.time) if message else "0001-01-01T00:00:00Z"

        state: dict[str, Any] = {
            "messages": len(kept),
            "bytes": kept.size,
            "first_seq": kept.first,
            "first_ts": stored_at(kept.first),
            "last_seq": kept.last,
            "last_ts": stored_at(kept.last),
            "consumer_count": len(self.consumers),
        }
        if subjects := len(kept.subjects(">")):
            state["num_subjects"] = subjects
        if kept and (gaps := kept.last - kept.first + 1 - len(kept)):
            state["num_deleted"] = gaps
        return state

    def next_ends(self) -> list[float]:
        """Seconds until its oldest message is too old, and until it forgets each identity that it remembers."""
        now, window = self.server.now(), self.config.get("duplicate_window", 0)
        ends = [(time + window - now) / SECOND for _, time in self.identities.values()]
        if self._aging is not None:
            ends.append(self._aging.when() - asyncio.get_running_loop().time())
        return ends

    def watch_age_anew(self) -> None:
        """Another maximal age is in force."""
        if self._aging is not None:
            self._aging.cancel()
            self._aging = None
        self._watch_age()

    def come_back(self) -> None:
        """A crash: what a limit has deleted is there again, as far as the limits allow it now."""
        for sequence, message in self._pushed_out.items():
            if sequence <= self.kept.last and sequence not in self.kept.by_sequence:
                self.kept.put(sequence, message)
        if self.kept:
            self.kept.first = min(self.kept.by_sequence)
        self._pushed_out.clear()

    def recover(self) -> None:
        """Begin again with what is stored, as after a start of the server: the window is read from the messages."""
        # A server that starts looks at its limits in the other order.
        self._trim_subjects()
        self.trim()
        self.identities.clear()
        if not self.kept.last:
            self.kept.first = 0
        window = self.config.get("duplicate_window", 0)
        since = self.kept.since(self.server.now() - window)
        for sequence in sorted(self.kept.by_sequence):
            message = self.kept.by_sequence[sequence]
            if sequence >= since and (identity := blocks.value(message.headers, MSG_ID)):
                self.remember(identity, sequence, message.time)
        self._watch_age()

    def stop(self) -> None:
        """End all timers."""
        if self._aging is not None:
            self._aging.cancel()
            self._aging = None
        for consumer in self.consumers.values():
            consumer.stop()

    def _forget_pushed_out(self) -> None:
        if not self.kept:
            self._pushed_out.clear()

    def _watch_age(self) -> None:
        age = self.config["max_age"]
        if age <= 0 or not self.kept or self._aging is not None:
            return
        left = self.kept.by_sequence[self.kept.first].time + age - self.server.now()
        # The server looks after a quarter of a second at the earliest.
        seconds = max(0.25, left / SECOND)
        self._aging = asyncio.get_running_loop().call_later(seconds, self.expire)
