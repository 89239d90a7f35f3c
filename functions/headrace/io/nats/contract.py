"""What callers of the client give and get: headers, arrivals, answers, and its two errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.nats.nats_wire import Arrival, PullRun

__all__ = [
    "Answer",
    "Arrival",
    "Broken",
    "Closed",
    "Headers",
    "OnAnswer",
    "OnArrival",
    "OnPullRun",
]

# Bytes are a block that `nats_wire.header_block` made, for those who encode for themselves; `nats_wire.pairs` reads it.
Headers: TypeAlias = Mapping[str, str] | bytes
OnArrival: TypeAlias = Callable[[Arrival], None]
OnPullRun: TypeAlias = Callable[[PullRun], None]
# The data of an answer that is nothing but that, as a PubAck; any other answer; or the error in its place.
Answer: TypeAlias = bytes | Arrival | HeadraceError
OnAnswer: TypeAlias = Callable[[Answer], None]


class Broken(HeadraceError):
    """The connection broke while an answer was awaited: the outcome is unknown. Never leaves `headrace.io`."""


class Closed(Unavailable):
    """This client was closed by its owner, for good: whoever tries again for ever must stop."""

    def __init__(self) -> None:
        super().__init__("this connection to NATS was closed by ourselves")
