"""A lease: the caller's request, clamped, and the answer to it.

One HTTP request to `forward` is one lease on one consumer (ADR 011). Pure; shared by `forward` and by the scaler that
opens leases.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.core.delivery import bearer
from headrace.core.delivery.bearer import Bearers
from headrace.core.errors import InvalidSpec
from headrace.core.nats import jetstream
from headrace.core.quoting import quoted

# Knative sends SIGTERM 30 s after a pod is picked for scale-down; a lease of 25 s or less always ends before
# (measured on Knative Serving 98e5ef9).
LONGEST_SECONDS = 25.0
DEFAULT_SECONDS = 20.0
LONGEST_LINGER = 10.0
DEFAULT_LINGER = 2.0
LONGEST_NAME = 255

PROGRESS_SECONDS = 2.0
"""How often a lease tells its opener what it has done: well within the 15 s between two scrapes."""
LEAST_PROGRESS = 0.1
"""The shortest interval that an opener gets: with a shorter one a lease would do nothing else."""

ENDING = ("headrace-lease", "ending")
"""The header of an answer that begins early: this process was told to end, so the lease pulls no more and only waits
for its subscribers. The answer itself follows; a successor need not wait for it."""
ENDING_LINE = b'{"ending": true}\n'
"""The same as a line of an answer that has already begun."""
RETRY_AFTER = "retryAfter"
"""The member of a failure in such an answer that takes the place of the Retry-After header."""
OUTDATED = "outdated_tokens"
"""The member of an answer that names the audiences whose token was refused."""
# A larger number is nonsense: a float does not count it exactly.
_MOST_EVENTS = 2**53


@dataclass(frozen=True, slots=True)
class Lease:
    """The arguments of one lease.

    Attributes:
        stream, consumer: the consumer to serve; everything else about the delivery is in the consumer's metadata.
        seconds: how long to pull.
        linger: seconds without any new message after which the lease ends early.
        max_in_flight, max_bytes: events, and bytes of them, in subscribers' hands at once.
        max_ahead: events that may wait beside those in hand (`headrace.core.delivery.ahead`).
        bits_per_second: this lease's share of the subscriber's rate limit; 0 is unlimited.
        progress_seconds: how often the lease tells, in its open answer, what it has done: LEAST_PROGRESS or more, or 0
            for never.
        tokens: for the audiences of the consumer's addresses; no words about the lease show them.
    """

    stream: str
    consumer: str
    seconds: float = DEFAULT_SECONDS
    linger: float = DEFAULT_LINGER
    max_in_flight: int = 100
    max_bytes: int = 16 * 1024 * 1024
    max_ahead: int = 0
    bits_per_second: float = 0.0
    progress_seconds: float = 0.0
    tokens: Bearers = field(default_factory=dict, repr=False)

    def to_json(self) -> dict[str, object]:
        """The body of the lease request."""
        return {
            "stream": self.stream,
            "consumer": self.consumer,
            "seconds": self.seconds,
            "linger": self.linger,
            "max_in_flight": self.max_in_flight,
            "progress_seconds": self.progress_seconds,
            **({bearer.MEMBER: bearer.to_json(self.tokens)} if self.tokens else {}),
        }


def parse_request(body: bytes, *, max_in_flight: int, max_bytes: int) -> Lease:
    """Read a lease request, clamped to what this process allows.

    Raises:
        InvalidSpec: naming the field.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"the body is not JSON ({error}): send {{stream, consumer, …}}", field="body") from error
    if not isinstance(asked, dict):
        raise InvalidSpec("the body must be a JSON object with stream and consumer", field="body")
    progress = _number(asked, "progress_seconds", 0.0, LONGEST_SECONDS)
    return Lease(
        stream=_name(asked, "stream"),
        consumer=_name(asked, "consumer"),
        seconds=_number(asked, "seconds", DEFAULT_SECONDS, LONGEST_SECONDS),
        linger=_number(asked, "linger", DEFAULT_LINGER, LONGEST_LINGER),
        max_in_flight=max(1, int(_number(asked, "max_in_flight", float(max_in_flight), float(max_in_flight)))),
        max_bytes=max_bytes,
        progress_seconds=max(progress, LEAST_PROGRESS) if progress else 0.0,
        tokens=bearer.from_json(asked[bearer.MEMBER]) if bearer.MEMBER in asked else {},
    )


class Outcome(StrEnum):
    """How one pulled message left the lease.

    REDELIVERED is counted beside another outcome: the message had been pulled before without a failed attempt of
    ours on record, so its subscriber may see it twice. A SKIPPED message is a replay for another consumer alone; a
    POSTPONED one was given back, since an earlier one of its key has to go first. DISCARDED messages were never pulled:
    the server discarded them before this consumer's turn came.
    """

    DELIVERED = "delivered"
    RETRIED = "retried"
    DEAD_LETTERED = "dead_lettered"
    PARKED = "parked"
    REPLIED = "replied"
    REDELIVERED = "redelivered"
    RETURNED = "returned"
    SKIPPED = "skipped"
    POSTPONED = "postponed"
    STUCK = "stuck"
    UNSETTLED = "unsettled"
    DISCARDED = "discarded"


@dataclass(slots=True)
class Tally:
    """The work of a lease so far.

    Attributes:
        latest: the ack subject of the latest message since the lease last told of itself; empty when none came.
        due: the time of the next try for each event that it has put off, seconds since the epoch, by stream sequence.
        broken: why its latest pulls broke off one after the other; empty when they did not.
        refused: why it can't pull at all; empty when it can.
        sunk: why the last event for the dead letter sink went there: the answer before that, in words.
        skew: the most seconds by which the clock behind a due time was ahead of ours.
        outdated: audiences whose token was refused, and should be made anew.
    """

    counts: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    latest: str = ""
    due: dict[int, float] = field(default_factory=dict)
    broken: str = ""
    refused: str = ""
    sunk: str = ""
    skew: float = 0.0
    outdated: Collection[str] = ()

    def count(self, outcome: Outcome, events: int = 1) -> None:
        self.counts[outcome] += events


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """The answer of a lease, as its opener reads it.

    Attributes:
        counts: events per outcome.
        pending: messages that no lease has pulled yet; ack_pending: pulled and not settled, delayed retries included.
        next_due_seconds: until the earliest delayed retry that this lease has asked for; None without one.
        outdated: audiences whose token was refused, and should be made anew.
    """

    counts: Mapping[str, int]
    pending: int
    ack_pending: int
    next_due_seconds: float | None
    outdated: tuple[str, ...] = ()

    @property
    def moved(self) -> int:
        return moved(self.counts)

    def to_json(self) -> dict[str, object]:
        return {
            **self.counts,
            "pending": self.pending,
            "ack_pending": self.ack_pending,
            "next_due_seconds": self.next_due_seconds,
            **({OUTDATED: list(self.outdated)} if self.outdated else {}),
        }


def moved(counts: Mapping[str, int]) -> int:
    """Events that a lease has settled for good or put off: a lease that moved none did no work."""
    return sum(counts.get(outcome, 0) for outcome in _MOVES)


_MOVES = (
    Outcome.DELIVERED,
    Outcome.RETRIED,
    Outcome.DEAD_LETTERED,
    Outcome.PARKED,
    Outcome.SKIPPED,
    Outcome.POSTPONED,
)


@dataclass(frozen=True, slots=True)
class News:
    """One line of an answer that begins before the lease ends.

    Attributes:
        counts: events per outcome since the lease began; None in a line about something else.
        pending: messages that no lease has pulled, as the latest message told; None without one since the line before.
        ending: this process was told to end.
    """

    counts: Mapping[str, int] | None = None
    pending: int | None = None
    ending: bool = False


def so_far(tally: Tally) -> bytes:
    """The line that tells a lease's work until now."""
    line: dict[str, object] = {"so_far": {str(outcome): count for outcome, count in tally.counts.items() if count}}
    # An ack subject is told once: an old one is no news, and other leases have pulled since.
    latest, tally.latest = tally.latest, ""
    if (pending := jetstream.pending_after(latest)) is not None:
        line["pending"] = pending
    return json.dumps(line).encode() + b"\n"


def read_news(line: bytes) -> News | None:
    """Read such a line; None for any other line: the answer itself, or somebody else's words."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return None
    match body:
        case {"ending": True}:
            return News(ending=True)
        case {"so_far": dict() as counts}:
            known = {str(outcome): counts.get(outcome, 0) for outcome in Outcome}
            pending = body.get("pending")
            pending = pending if _is_count(pending) else None
            return News(known, pending) if all(map(_is_count, known.values())) else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class LeaseFailure:
    """The failure of a lease after the head of its response was sent; it takes the answer's place.

    Attributes:
        status: the HTTP status that the failure would have had in time.
        retry_after: seconds, as in the header.
    """

    status: int
    detail: str
    retry_after: float | None = None


def read_failure(body: object) -> LeaseFailure | None:
    """Read a problem (RFC 9457) from the body of a 200; None for any other body."""
    match body:
        case {"title": str(), "status": int(status), "detail": str(detail), **more} if 400 <= status <= 599:
            wait = more.get(RETRY_AFTER)
            return LeaseFailure(status, detail, float(wait) if type(wait) is int and _is_count(wait) else None)
        case _:
            return None


def answer(tally: Tally, *, pending: int, ack_pending: int, now: float) -> LeaseAnswer:
    """The answer of a lease that ends `now`."""
    due = round(max(0.0, min(tally.due.values()) - now), 3) if tally.due else None
    counts = {str(outcome): count for outcome, count in tally.counts.items()}
    return LeaseAnswer(counts, pending, ack_pending, due, tuple(sorted(tally.outdated)))


def read_answer(body: Mapping[str, Any]) -> LeaseAnswer:
    """The inverse of `LeaseAnswer.to_json`.

    Raises:
        InvalidSpec: the answer is not a lease's.
    """
    try:
        due = None if body["next_due_seconds"] is None else float(body["next_due_seconds"])
        if due is not None and not math.isfinite(due):
            raise ValueError(f"next_due_seconds is {due}")
        counts = {str(outcome): body.get(outcome, 0) for outcome in Outcome}
        pending, ack_pending = body["pending"], body["ack_pending"]
        if not all(map(_is_count, (*counts.values(), pending, ack_pending))):
            raise ValueError("it counts what can't be counted")
        return LeaseAnswer(counts, pending, ack_pending, due, tuple(map(str, body.get(OUTDATED) or ())))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidSpec(f"that is not the answer of a lease: {error!r}", field="body") from error


def _is_count(value: object) -> bool:
    # An integer beyond any float would end the calculation that uses it.
    return type(value) is int and 0 <= value <= _MOST_EVENTS


def _name(asked: Mapping[str, object], key: str) -> str:
    value = asked.get(key)
    if not isinstance(value, str) or not value or len(value) > LONGEST_NAME:
        raise InvalidSpec(f"{key} is {quoted(str(value))}: give the name of the {key}", field=key)
    if any(char in ".*>/\\" or char.isspace() or not char.isprintable() for char in value):
        raise InvalidSpec(f"{key} is {quoted(value)}, which can't be the name of a {key}", field=key)
    return value


def _number(asked: Mapping[str, object], key: str, default: float, most: float) -> float:
    value = asked.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise InvalidSpec(f"{key} is {quoted(str(value))}: give a number of 0 or more", field=key)
    # `min` comes first: an integer of JSON may be larger than any float.
    return float(min(value, most))
