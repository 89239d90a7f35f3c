"""A lane: one channel with one subscriber, its places on the sink, and what its producers did."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.faults.ledger import Sent
from tests.faults.processes import SinkProcess
from tests.faults.sink import Arrival, Place
from tests.support.nats.streams import Channel


@dataclass
class Lane:
    """One channel with one subscriber, and its account."""

    channel: Channel
    consumer: str
    subscriber: Place
    reply: Place
    dead: Place
    replies: bool
    sent: Sent = field(default_factory=Sent)
    process: SinkProcess | None = None

    @property
    def arrivals(self) -> list[Arrival]:
        """What came to the subscriber, in whichever process it is."""
        return self.process.arrivals(self.subscriber.path) if self.process else self.subscriber.arrivals
