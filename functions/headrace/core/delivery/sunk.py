"""How many events the dead letter sink took in the subscriber's place, and the subscriber's answer to the last of them.

`forward` adds to the count at the end of a lease, in the aside stream: nothing else would show it, since to the channel
such an event is delivered. Pure; read by every program that looks from outside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

LONGEST_WORDS = 500
# No consumer has had more; a larger number is damage.
_MOST_EVENTS = 2**53


@dataclass(frozen=True, slots=True)
class Sunk:
    """The events of one consumer that went to its dead letter sink.

    Attributes:
        events: how many, since the consumer was created.
        last: why the last of them went there: the answer before that, in words.
        at: when that happened.
        sink: where they went.
    """

    events: int
    last: str
    at: datetime
    sink: str

    def to_json(self) -> bytes:
        body = {"events": self.events, "last": self.last[:LONGEST_WORDS], "at": self.at.timestamp(), "sink": self.sink}
        return json.dumps(body).encode()


def added(before: bytes, events: int, last: str, at: datetime, sink: str) -> bytes:
    """The bytes to store after so many more events.

    Args:
        before: the stored bytes; when empty or damaged, the count begins anew.
    """
    known = from_json(before)
    return Sunk(events + (known.events if known is not None else 0), last, at, sink).to_json()


def from_json(data: bytes) -> Sunk | None:
    """The inverse of `Sunk.to_json`; None for damaged bytes."""
    try:
        body = json.loads(data)
        events = body["events"]
        if type(events) is not int or not 0 < events < _MOST_EVENTS:
            raise ValueError("events")
        at = datetime.fromtimestamp(float(body["at"]), UTC)
        return Sunk(events, str(body["last"])[:LONGEST_WORDS], at, str(body["sink"]))
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return None
