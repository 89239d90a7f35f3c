"""The account of a load with faults: what became of each event, what came twice and whether a fault excuses it.

An event is *lost* when it was answered with 202, its subscriber never got it, and it is not parked. It came *twice*
when the subscriber had answered it with 202 and got it again; a fault *excuses* that for events that were in somebody's
hands when it struck (`tests.faults.ledger.Strike`). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.faults.ledger import Sent, Strike, taken
from tests.faults.sink import Arrival

# Later than that an event was held up, and not only on its way through a subscriber that takes a second.
LATE_SECONDS = 2.5


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens during a load.

    Attributes:
        at: seconds after the load's begin.
        does: blocking; run in a thread.
        first: the same, before it: what has to be so for it to strike.
        lasts: seconds after it during which events are still in the hands of what it struck.
        excuses: may events that were in hands come twice?
    """

    at: float
    does: Callable[[], object]
    lasts: float = 0.0
    excuses: bool = False
    first: Callable[[], object] = lambda: None


@dataclass
class Account:
    """What became of the events of one load.

    Attributes:
        twice: events that came again though they had been taken, with how often.
        in_hands: how many events were in somebody's hands when a fault struck that excuses what comes twice.
        unexcused: events that came twice and were in nobody's hands then.
        retried: tries that were answered with something else than 202, or not at all, by what they were answered with.
        p50, p99, longest: seconds from the first try to the delivery.
        recoveries: for each fault, what it was followed by.
    """

    sent: int
    accepted: int
    delivered: int
    lost: list[str]
    twice: dict[str, int]
    in_hands: int
    unexcused: list[str]
    parked: int
    retried: dict[str, int]
    unknown: int
    p50: float
    p99: float
    longest: float
    recoveries: list[Recovery] = field(default_factory=list)

    @property
    def again(self) -> int:
        """Deliveries beyond the first."""
        return sum(self.twice.values()) - len(self.twice)

    @property
    def refusals(self) -> str:
        """How often the sender had to try again, for a table."""
        return ", ".join(f"{count} × {answer}" for answer, count in sorted(self.retried.items())) or "0"


@dataclass(frozen=True, slots=True)
class Recovery:
    """After one fault.

    Attributes:
        silent: seconds from the fault to the next delivery.
        caught_up: seconds from that delivery to the last first delivery of an event that was late.
        late: how many events were.
    """

    silent: float
    caught_up: float
    late: int


def account(sent: Sent, arrivals: Sequence[Arrival], struck: Sequence[tuple[Fault, Strike]], parked: int) -> Account:
    """Compare what the sender was told with what the subscriber got."""
    counts = taken(arrivals)
    twice = {id: count for id, count in counts.items() if count > 1}
    excused = set().union(*(strike.in_hands(arrivals) for fault, strike in struck if fault.excuses), set[str]())
    lost = sorted(sent.accepted - set(counts))
    took = sorted(_latencies(arrivals).values()) or [0.0]
    return Account(
        sent=len(sent.sent),
        accepted=len(sent.accepted),
        delivered=len(counts),
        lost=lost if len(lost) > parked else [],
        twice=twice,
        in_hands=len(excused),
        unexcused=sorted(set(twice) - excused),
        parked=parked,
        retried=dict(sent.after),
        unknown=len(sent.unknown),
        p50=took[len(took) // 2],
        p99=took[int(len(took) * 0.99)],
        longest=took[-1],
        recoveries=[recovery(arrivals, strike.since) for _, strike in struck],
    )


def recovery(arrivals: Sequence[Arrival], since: float) -> Recovery:
    """How deliveries went on after a moment, until everything that had been held up was delivered."""
    # What was on the wire still arrives at once.
    after = [arrival.at for arrival in arrivals if arrival.at > since + 0.2]
    if not after:
        return Recovery(0.0, 0.0, 0)
    latencies = _latencies(arrivals)
    late = [
        arrival.at
        for arrival in _first(arrivals).values()
        if arrival.at >= after[0] and latencies[arrival.id] > LATE_SECONDS
    ]
    return Recovery(after[0] - since, max(late, default=after[0]) - after[0], len(late))


def _first(arrivals: Sequence[Arrival]) -> dict[str, Arrival]:
    return {arrival.id: arrival for arrival in reversed(arrivals)}


def _latencies(arrivals: Sequence[Arrival]) -> dict[str, float]:
    # The sender's clock is ours.
    return {id: arrival.at - float(arrival.headers["ce-sentat"]) for id, arrival in _first(arrivals).items()}
