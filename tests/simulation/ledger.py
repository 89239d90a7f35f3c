"""What happened in one history, as those saw it to whom it happened.

The world writes it, the oracle judges by it, and `lines` tells it to people. Times are seconds of the simulated clock,
which no host's wall clock changes. Knows neither the product nor the loop: it holds values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.faults import Fault

FOR_EVER = float("inf")


@dataclass(slots=True)
class Posted:
    """A producer's POST of an event. Without an answer `status` is None, and `ended` says when it knew."""

    event: str
    at: float
    connection: int
    status: int | None = None
    ended: float = FOR_EVER
    duplicate: str = ""


@dataclass(slots=True)
class Post:
    """A POST of `forward` at an address, from the moment at which the address had all of it.

    Attributes:
        event: of the channel's event, also where a reply to it is POSTed.
        subscription, role: as in a script.
        n: the number of this POST of the event at this address, from 1.
        host: of the `forward`.
        taken: has the address taken the event?
        status, ended: the last byte of its answer, as it left; None for no answer, and then when the connection broke.
        size: bytes of the body. intact: is it what the producer sent (or the subscriber, in a reply)?
        failed_at, failed_with: what the dead letter says of the failure before it: destination's role, and status.
    """

    event: str
    subscription: str
    role: str
    n: int
    at: float
    host: str = ""
    taken: bool = False
    status: int | None = None
    ended: float = FOR_EVER
    size: int = 0
    intact: bool = True
    failed_at: str = ""
    failed_with: int | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        return self.event, self.subscription, self.role


@dataclass(slots=True)
class Act:
    """A frame upon which the server has acted: of the verbs, for one message of one consumer.

    Attributes:
        verb: of `faults.Verb`: ACK, ACK_SYNC, NAK, WPI, DELIVERY, ASIDE, PURGE (of its record), STORE.
        seconds: of a NAK, its delay; of a stage record, its wait.
        due: of a stage record, in true seconds of the simulated clock plus its writer's error.
        delivered: of a DELIVERY, the count in its ack subject.
        attempts, stage, stuck: of a stage record.
        parked: an ASIDE is a parked copy.
    """

    at: float
    verb: str
    host: str
    event: str
    subscription: str = ""
    sequence: int = 0
    seconds: float = 0.0
    due: float | None = None
    delivered: int = 0
    attempts: tuple[int, ...] = ()
    stage: str = ""
    stuck: bool = False
    parked: bool = False


@dataclass(slots=True)
class Strike:
    """A fault that struck. `until` is when its effect has passed; `frame` the words of the frame at which it struck.

    Attributes:
        hosts: who was hit: killed, cut off, frozen; empty for all.
    """

    fault: Fault
    at: float
    until: float
    hosts: tuple[str, ...] = ()
    frame: str = ""


@dataclass(slots=True)
class Leased:
    """One lease, as the scaler held it: `answer` is in words, empty while open or when it was given up.

    Attributes:
        seconds: what it asked for.
        late: when its process said that it ends: from then on it only waits for subscribers.
    """

    at: float
    host: str
    subscription: str
    scaler: int = 0
    seconds: float = 20.0
    late: float = FOR_EVER
    ended: float = FOR_EVER
    answer: str = ""


@dataclass(slots=True)
class ParkedCopy:
    """A parked event, read back by the product's own reader when the history is over."""

    event: str
    subscription: str
    sequence: int
    attempts: int
    reason: str
    status: int | None
    destination: str
    intact: bool = True


@dataclass(slots=True)
class Ledger:
    """Everything that was seen.

    Attributes:
        quiet_at: when all events were settled, and nothing was left to do; infinite if that never came.
        last_at: when the history was ended.
        stored: sequences of each event in its channel's stream, ever, with the time.
        records: left in the aside streams at the end: subscription, sequence, and which (`stage`, `stuck`).
        left: unsettled at the end: subscription and event.
        pulls: open at the end. leases: open at the end are those without `ended`.
        at_rest: counts of what is alive at the end (tasks, futures, timers, subscriptions) by host; `baseline` the same
            before the first event.
        most: the maxima of what was in hand, by name: `bytes forward-0`, `ack window c0/s0`, `waiting receive`.
        counted: the scaler's sums of outcomes at the end, by subscription. sunk: the counters in the aside streams.
        conditions: False ones at the end, by channel, with their reasons.
        decreased: counters that went down while their process lived.
        overdue: reports of `forward` that order is not sure: time and subscription.
        troubles: unhandled exceptions, tasks destroyed, error lines.
    """

    posted: list[Posted] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    strikes: list[Strike] = field(default_factory=list)
    leases: list[Leased] = field(default_factory=list)
    parked: list[ParkedCopy] = field(default_factory=list)
    stored: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    records: list[tuple[str, int, str]] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    pulls: list[str] = field(default_factory=list)
    at_rest: dict[str, int] = field(default_factory=dict)
    baseline: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    counted: dict[str, dict[str, int]] = field(default_factory=dict)
    sunk: dict[str, int] = field(default_factory=dict)
    conditions: dict[str, dict[str, str]] = field(default_factory=dict)
    decreased: list[str] = field(default_factory=list)
    overdue: list[tuple[float, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    quiet_at: float = FOR_EVER
    last_at: float = FOR_EVER

    @property
    def healed_at(self) -> float:
        """When the effect of the last strike had passed."""
        return max((strike.until for strike in self.strikes), default=0.0)

    def lines(self) -> list[str]:
        """The history as a time line, one line for each thing that happened, in order."""
        found: list[tuple[float, str]] = []
        for one in self.posted:
            found.append((one.at, f"producer     POST {one.event} (connection {one.connection})"))
            if one.ended < FOR_EVER:
                words = "no answer" if one.status is None else f"{one.status}{' duplicate' * bool(one.duplicate)}"
                found.append((one.ended, f"producer     {one.event}: {words}"))
        for post in self.posts:
            where = f"{post.subscription} {post.role}"
            found.append((post.at, f"{post.host or 'forward':12} POST {post.event} to {where}, number {post.n}"))
            if post.ended < FOR_EVER:
                words = "broke" if post.status is None else f"answered {post.status}"
                taken = ", taken" if post.taken else ""
                found.append((post.ended, f"{where:12} {post.event}: {words}{taken}"))
        for event, stored in self.stored.items():
            found += [(at, f"nats         stored {event} as {sequence}") for at, sequence in stored]
        found += [(act.at, _act(act)) for act in self.acts if act.verb != "STORE"]
        for lease in self.leases:
            found.append((lease.at, f"operator     lease on {lease.subscription} at {lease.host}"))
            if lease.ended < FOR_EVER:
                found.append(
                    (lease.ended, f"operator     lease on {lease.subscription} ended: {lease.answer or 'given up'}")
                )
        for strike in self.strikes:
            at = f" ({strike.frame})" if strike.frame else ""
            found.append((strike.at, f"** {strike.fault}{at}"))
        found += [(at, f"forward      order is not sure: {name}") for at, name in self.overdue]
        found.sort(key=lambda one: one[0])
        return [f"{at:10.4f}  {words}" for at, words in found]


def _act(act: Act) -> str:
    more = f", {act.event}" if act.event else ""
    match act.verb:
        case "DELIVERY":
            return f"nats         {act.subscription} {act.sequence} to {act.host}, delivery {act.delivered}{more}"
        case "ASIDE" if act.parked:
            return f"nats         parked: {act.subscription} {act.sequence}{more}"
        case "ASIDE":
            stuck = ", stuck" if act.stuck else ""
            said = f"{act.stage} {list(act.attempts)}, wait {act.seconds:g} s{stuck}"
            return f"nats         record: {act.subscription} {act.sequence} {said}{more}"
        case "NAK":
            return f"nats         NAK {act.subscription} {act.sequence}, {act.seconds:g} s{more}"
    return f"nats         {act.verb} {act.subscription} {act.sequence}{more}"
