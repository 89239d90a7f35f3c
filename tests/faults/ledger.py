"""What producers were promised, and what became of it.

Pure: arrivals, ids and stream contents go in, one row of the table comes out. An event is *lost* when it was answered
with 202 and neither its subscriber (and reply address), nor the dead letter sink, nor the parked events have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.faults.sink import Arrival

# The ack of an answer is on its way for so long, on two busy cores.
ON_ITS_WAY = 0.5


@dataclass
class Sent:
    """What one channel's producers did.

    Attributes:
        accepted: ids that were answered with 202, at the first try or at a later one.
        refused: ids with a final status that is no 202.
        unknown: ids without any answer until the producer gave up.
        retried: tries after which the event was sent again; `after`: the same by the answer, `none` for none at all.
    """

    sent: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    refused: dict[str, int] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    retried: int = 0
    after: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Held:
    """Where the events of one consumer are at the end.

    Attributes:
        replies: of a subscriber that answers each event with one of its own, `r-` before the id; None without.
        stored: how many the channel's stream holds.
        left: not settled when the time was up.
    """

    subscriber: list[Arrival]
    replies: list[Arrival] | None
    dead: list[Arrival]
    parked: list[str]
    stored: int
    left: int


@dataclass
class Row:
    """One row of the table; counts of events.

    Attributes:
        in_hands: the most duplicates that the cell's faults make unavoidable.
        discarded: what the server itself threw away, by its own count.
        strange: events that arrived and were never sent, or that were refused and arrived all the same.
        takes_all: the subscriber takes every event within its attempts: none may be parked or dead-lettered.
        twice: events with more than one fate: delivered and dead-lettered, for example.
    """

    cell: str
    seed: int
    sent: int = 0
    accepted: int = 0
    refused: int = 0
    unknown: int = 0
    stored: int = 0
    delivered: int = 0
    dead: int = 0
    parked: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_time: int = 0
    strange: int = 0
    twice: int = 0
    in_hands: int = 0
    discarded: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    lost_ids: list[str] = field(default_factory=list)
    takes_all: bool = False

    def faults(self) -> list[str]:
        """What is wrong with it; empty for a cell that kept the promise."""
        found = []
        if self.lost != self.discarded:
            found.append(f"lost {self.lost}, discarded by the server {self.discarded}: {self.lost_ids[:5]}")
        if self.duplicated + self.twice > self.in_hands:
            found.append(f"{self.duplicated} duplicated, {self.twice} with two fates; at most {self.in_hands} can be")
        if self.out_of_time:
            found.append(f"{self.out_of_time} not settled in time")
        if self.takes_all and self.parked + self.dead:
            found.append(f"{self.parked + self.dead} used up their attempts, though their subscriber takes them")
        if self.strange:
            found.append(f"{self.strange} arrived that should not")
        return [*found, *(note for note in self.notes if note.startswith("FAILED"))]


def taken(arrivals: Iterable[Arrival]) -> Counter[str]:
    """How often each event was taken."""
    return Counter(arrival.id for arrival in arrivals if arrival.took)


@dataclass
class Strike:
    """Something that held events died, or stood still, in this span of time.

    Attributes:
        most: events that it can have held.
    """

    since: float
    until: float
    most: int

    def in_hands(self, arrivals: Iterable[Arrival]) -> set[str]:
        """Events whose ack may not have been sent: unanswered, or answered a moment before it or later."""
        return {
            arrival.id.removeprefix("r-")
            for arrival in arrivals
            if arrival.at <= self.until + ON_ITS_WAY
            and (arrival.answered_at is None or arrival.answered_at > self.since - ON_ITS_WAY)
        }


def allow(row: Row, held: Held, strikes: list[Strike]) -> None:
    """Allow the duplicates that the strikes make unavoidable: as many, and of these events only."""
    places = [held.subscriber, held.replies or [], held.dead]
    stages = sum(map(bool, places))
    spared = set().union(*({id for id, count in taken(place).items() if count > 1} for place in places))
    for strike in strikes:
        ids = set().union(*(strike.in_hands(place) for place in places))
        row.in_hands += min(len(ids), strike.most) * max(1, stages)
        spared -= {*ids, *(f"r-{id}" for id in ids)}
    if spared and strikes:
        row.notes.append(f"FAILED: duplicates that were in nobody's hands: {sorted(spared)[:5]}")


def settle(row: Row, sent: Sent, held: Held) -> None:
    """Add one consumer's account to the row."""
    subscriber, dead, parked = taken(held.subscriber), taken(held.dead), Counter(held.parked)
    delivered = set(subscriber)
    copies = [subscriber, dead, parked]
    if held.replies is not None:
        replies = taken(held.replies)
        copies.append(replies)
        delivered = {id for id in delivered if f"r-{id}" in replies}
    fates = [delivered, set(dead), set(parked)]
    reached = set().union(*fates)
    lost = sorted(sent.accepted - reached)
    row.sent += len(sent.sent)
    row.accepted += len(sent.accepted)
    row.refused += len(sent.refused)
    row.unknown += len(sent.unknown)
    row.stored += held.stored
    row.delivered += len(delivered)
    row.dead += len(dead)
    row.parked += len(parked)
    row.lost += len(lost)
    row.lost_ids += lost
    row.duplicated += sum(count - 1 for copy in copies for count in copy.values())
    row.twice += sum(map(len, fates)) - len(reached)
    row.out_of_time += held.left
    row.strange += len((reached | set(subscriber)) - sent.accepted - sent.unknown)
