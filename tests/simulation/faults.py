"""What strikes a history: a list that is drawn before the history runs, so that it can be shortened.

A fault strikes at a time, or at a frame: when the n-th ack, record, pull … passes on the wire to or from NATS. Crashes
at frames find in twenty histories what crashes at times miss in four hundred. Declared and drawn here;
`tests.simulation.strikes` carries them out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What happens. `seconds` and `values` mean:

    KILL: the host dies without a word, and starts again after `seconds`. TERM: it is told to end, does its own drain,
    and another of its name starts `seconds` later. PAUSE: it stands still for `seconds`. RESET: its connections to NATS
    break.
    NATS_KILL: nats-server dies; its consumers come back `values[0]` seconds older than its streams. POWER: the same,
    but of what was not synced only these shares survive, from 0 to 1: of streams, of consumers, of aside streams.
    CUT: nothing passes between `target` and `peer`; `values[0]` is 0 for both ways, 1 for none from `target`, and 2
    for none to it.
    WALL: the host's wall clock is off by `values[0]` seconds, for good. SLOW: its passages take `values[0]` seconds
    more.
    TWO_SCALERS: a second operator leads, too. ASIDE_FULL, STREAM_FULL: no room for `seconds`.
    NO_LEADER: JetStream's answers fail; `values[0]` is 0 for 503, 1 for late by 6 s, 2 for each of them twice.
    EDIT: somebody changes a subscription, `target` is `c0/s0`; `values[0]` is 0 for its retries (plus one), 1 for a
    consumer deleted by hand, 2 for a new timeout, 3 for an edit back and forth that changes nothing.
    """

    KILL = "kill"
    TERM = "term"
    PAUSE = "pause"
    RESET = "reset"
    NATS_KILL = "nats_kill"
    POWER = "power"
    CUT = "cut"
    WALL = "wall"
    SLOW = "slow"
    TWO_SCALERS = "two_scalers"
    ASIDE_FULL = "aside_full"
    STREAM_FULL = "stream_full"
    NO_LEADER = "no_leader"
    EDIT = "edit"


class Verb(StrEnum):
    """The frames at which a fault may strike: above those to the server, below those from it."""

    ACK = "ACK"
    NAK = "NAK"
    WPI = "WPI"
    ACK_SYNC = "ACK_SYNC"
    STORE = "STORE"
    ASIDE = "ASIDE"
    DIRECT_GET = "DIRECT_GET"
    PURGE = "PURGE"
    NEXT = "NEXT"
    INFO = "INFO"

    PUB_ACK = "PUB_ACK"
    API_ANSWER = "API_ANSWER"
    STATUS = "STATUS"
    DELIVERY = "DELIVERY"

    @property
    def from_server(self) -> bool:
        return self in (Verb.PUB_ACK, Verb.API_ANSWER, Verb.STATUS, Verb.DELIVERY)


@dataclass(frozen=True, slots=True)
class Frame:
    """A moment on the wire.

    Attributes:
        nth: from 1, counted over the whole history; with a target, over that host's frames.
        before: strike before the server acts on it (the frame from the server is not handed over); else after it has
            acted and before its answer leaves (the frame from the server has been handed over).
    """

    verb: Verb
    nth: int
    before: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; exactly one of `at` (seconds from the start) and `frame` is given.

    Attributes:
        target: a host; empty, with a frame: the host whose connection carries it.
    """

    kind: Kind
    target: str = ""
    at: float | None = None
    frame: Frame | None = None
    seconds: float = 0.0
    values: tuple[float, ...] = ()
    peer: str = ""

    def __str__(self) -> str:
        when = f"{self.at or 0.0:.3f} s"
        if self.frame is not None:
            when = f"{'before' if self.frame.before else 'after'} {self.frame.verb} {self.frame.nth}"
        words = [str(self.kind), self.target, f"| {self.peer}" if self.peer else "", f"at {when}"]
        words += [f"for {self.seconds:g} s" if self.seconds else "", " ".join(f"{value:g}" for value in self.values)]
        return " ".join(filter(None, words))


FORWARDS = ("forward-0", "forward-1")
CLIENTS = (*FORWARDS, "receive", "operator")
# Shorter and longer than a ping, the ack wait of 8 s and a lease of 25 s.
_SPANS = (0.05, 0.4, 2.0, 5.0, 7.5, 9.0, 14.0, 27.0)
_AT_A_FRAME = (
    Kind.KILL,
    Kind.KILL,
    Kind.KILL,
    Kind.RESET,
    Kind.RESET,
    Kind.NATS_KILL,
    Kind.CUT,
    Kind.PAUSE,
    Kind.TERM,
    Kind.POWER,
)
_AT_A_TIME = (
    *(Kind.KILL, Kind.TERM, Kind.PAUSE, Kind.RESET, Kind.NATS_KILL, Kind.CUT, Kind.CUT, Kind.WALL, Kind.SLOW),
    *(Kind.POWER, Kind.TWO_SCALERS, Kind.ASIDE_FULL, Kind.STREAM_FULL, Kind.NO_LEADER, Kind.EDIT),
)


def draw(source: random.Random, subscriptions: Sequence[str], last: float) -> tuple[Fault, ...]:
    """The faults of a history whose events come within `last` seconds."""
    count = source.choice((0, 1, 1, 1, 2, 2, 3, 5))
    return tuple(_fault(source, subscriptions, last) for _ in range(count))


def _fault(source: random.Random, subscriptions: Sequence[str], last: float) -> Fault:
    if source.random() < 0.6:
        kind = source.choice(_AT_A_FRAME)
        frame, at = Frame(source.choice(list(Verb)), _small(source), source.random() < 0.5), None
        target = source.choice(("", "", *FORWARDS))
    else:
        kind, frame, at = source.choice(_AT_A_TIME), None, round(source.uniform(0.0, last + 8.0), 3)
        target = source.choice((*CLIENTS, *FORWARDS, "reconcile"))
    seconds = source.choice(_SPANS)
    values: tuple[float, ...] = ()
    peer = ""
    match kind:
        case Kind.NATS_KILL:
            target, seconds, values = "nats", min(seconds, 9.0), (source.choice((0.0, 0.0, 0.5, 3.0)),)
        case Kind.POWER:
            target, seconds = "nats", min(seconds, 9.0)
            values = tuple(source.choice((0.0, 0.5, 0.9, 1.0)) for _ in range(3))
        case Kind.CUT:
            peer, values = "nats", (float(source.randrange(3)),)
            if frame is None and source.random() < 0.4:
                target, peer = source.choice(
                    (("operator", "forward-0"), ("forward-0", "subscriber"), ("forward-1", "sink"))
                )
        case Kind.WALL:
            values = (source.choice((-600.0, -30.0, -2.0, 2.0, 30.0, 600.0)),)
        case Kind.SLOW:
            values = (source.choice((0.2, 1.0, 3.0)),)
        case Kind.TWO_SCALERS | Kind.ASIDE_FULL | Kind.STREAM_FULL:
            target = ""
        case Kind.NO_LEADER:
            target, values = "", (float(source.randrange(3)),)
        case Kind.EDIT:
            target, values = source.choice(subscriptions), (float(source.randrange(4)),)
    return Fault(kind, target, at, frame, seconds, values, peer)


def _small(source: random.Random) -> int:
    """From 1; the first ones most often."""
    return 1 + min(int(source.expovariate(0.25)), 40)
