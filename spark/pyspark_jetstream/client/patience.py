"""Reading on through interruptions: only here is it known how long a read may make no progress.

Each try is short and starts afresh, since the objects of the last try may be bound to a dead server: once the cluster
has given a consumer's name to one server, no other answers for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from headrace.core.errors import Unavailable
from pyspark_jetstream.client.messages import Messages

# Two missed heartbeats and some patience for busy cores; after that the server or its consumer counts as gone.
SILENCE_SECONDS = 3.0
# A replica that has lacked messages of the leader for so long is left for another one.
LAG_SECONDS = 3.0
_PAUSE_SECONDS = 0.1


class RangeReading(Protocol):
    """The reading of one stream's range.

    Attributes:
        next: the first sequence that was not handed out.
        done: the end is proved.
    """

    stream: str
    next: int
    done: bool

    def consume(self) -> Iterator[Messages]:
        """Hand out the next messages; returns when `done`.

        Raises:
            Unavailable: it can't go on now or in this way, and is to be called again.
        """
        ...


class Lag:
    """The time since when the leader has had more than we were given."""

    def __init__(self) -> None:
        self._since: float | None = None

    def clear(self) -> None:
        """Note that a message has come."""
        self._since = None

    def is_too_long(self) -> bool:
        """Called whenever no message has come although the leader has more."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since > LAG_SECONDS


def read_on(reading: RangeReading, patience: float) -> Iterator[Messages]:
    """All messages of a range, try after try.

    Args:
        patience: seconds without any progress after which the reading is given up.

    Raises:
        Unavailable: there was no progress for so long.
        Refused: the server does not let us.
    """
    deadline = time.monotonic() + patience
    while not reading.done:
        try:
            for chunk in reading.consume():
                yield chunk
                deadline = time.monotonic() + patience
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"reading {reading.stream} from {reading.next}: no progress for {patience:.0f} s: {error}"
                ) from error
            time.sleep(_PAUSE_SECONDS)
