"""The types of the client's contract: headers, arrivals, answers, and its two errors."""

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

# Bytes are a block of `nats_wire.header_block`, for callers that encode by themselves; `nats_wire.pairs` reads it.
Headers: TypeAlias = Mapping[str, str] | bytes
OnArrival: TypeAlias = Callable[[Arrival], None]
OnPullRun: TypeAlias = Callable[[PullRun], None]
# The bare data of an answer that has nothing else, such as a PubAck; any other answer; or the error in its place.
Answer: TypeAlias = bytes | Arrival | HeadraceError
OnAnswer: TypeAlias = Callable[[Answer], None]


class Broken(HeadraceError):
    """The connection broke before the answer came: the outcome is unknown. The error never leaves `headrace.io`."""


class Closed(Unavailable):
    """The owner has closed this client for good: a caller that tries again for ever must stop."""

    def __init__(self) -> None:
        super().__init__("this connection to NATS was closed by ourselves")
