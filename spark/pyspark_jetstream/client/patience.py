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

# Two heartbeats missed, and some patience for busy cores; then the server, or what it should do for us, is gone.
SILENCE_SECONDS = 3.0
# A replica that has been without what the leader has for so long is left for another one.
LAG_SECONDS = 3.0
_PAUSE_SECONDS = 0.1


class RangeReading(Protocol):
    """A range of one stream, and how far it has got.

    Attributes:
        next: the first sequence that was not handed out.
        done: the end is proved.
    """

    stream: str
    next: int
    done: bool

    def consume(self) -> Iterator[Messages]:
        """Hand out what is next; returns when `done`.

        Raises:
            Unavailable: not now, or not this way: to be called again.
        """
        ...


class Lag:
    """Since when there has been more than we were given."""

    def __init__(self) -> None:
        self._since: float | None = None

    def clear(self) -> None:
        """Something has come."""
        self._since = None

    def is_too_long(self) -> bool:
        """To be asked whenever nothing has come, and the leader has more."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        return now - self._since > LAG_SECONDS


def read_on(reading: RangeReading, patience: float) -> Iterator[Messages]:
    """All of a range, try after try.

    Args:
        patience: seconds without any progress after which it is given up.

    Raises:
        Unavailable: there was none for so long.
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
