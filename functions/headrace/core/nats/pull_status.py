"""The server's words about a pull request, as values: how it ended, and what a next one may ask for.

Knows the statuses of JetStream and the words of its limits. Called by `headrace.io.jetstream.pull`;
`headrace.forward.lease` decides what follows from an end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import NamedTuple, TypeVar

from headrace.core import duration
from headrace.core.errors import InvalidSpec


class PullEnd(Enum):
    """Why a pull request is over.

    FILLED: it brought all the messages or bytes that it asked for; nothing, when even the first message is larger than
    the bytes. EXPIRED: its time is up.
    GONE: the consumer or stream does not exist any more. OUSTED: another lease serves this by-key consumer now.
    BROKEN: connection lost, leadership changed, JetStream away: ask again after a pause.
    LIMITED: it asked for more than a limit allows; the next one asks for less. REFUSED: it would be refused again,
    however often it is asked.
    """

    FILLED = "filled"
    EXPIRED = "expired"
    GONE = "gone"
    OUSTED = "ousted"
    BROKEN = "broken"
    LIMITED = "limited"
    REFUSED = "refused"


class PullLimits(NamedTuple):
    """The most that one pull may ask for, as far as the server has told; zero is unknown.

    Attributes:
        batch: messages.
        expires: how long it may stay open.
        max_bytes: bytes of all its messages.
    """

    batch: int = 0
    expires: timedelta = timedelta()
    max_bytes: int = 0

    def and_also(self, other: PullLimits) -> PullLimits:
        """The limits where both hold."""
        return PullLimits(
            _lower(self.batch, other.batch),
            _lower(self.expires, other.expires),
            _lower(self.max_bytes, other.max_bytes),
        )

    def within(self, batch: int, expires: timedelta, max_bytes: int) -> tuple[int, timedelta, int]:
        """The pull to ask for in place of this one; zero bytes are no limit, which the server allows."""
        return (
            min(batch, self.batch or batch),
            min(expires, self.expires or expires),
            min(max_bytes, self.max_bytes or max_bytes),
        )


_LIMIT = re.compile(r"exceeded (maxrequestbatch|maxrequestexpires|maxrequestmaxbytes) of (\S+)", re.ASCII)
# For a limit that somebody has set below the least that a clock can wait for.
_SHORTEST = timedelta(milliseconds=1)


def pull_end(status: str, description: str) -> PullEnd | None:
    """The meaning of a status message on a pull's inbox; None for one that ends nothing (a heartbeat).

    Source: JetStream wire API reference, pull status codes; the words of refusals as NATS 2.15.1 has them.
    """
    words = description.lower()
    match status:
        case "100":
            return None
        case "404" | "408":
            return PullEnd.EXPIRED
        case "423":
            return PullEnd.OUSTED
        case "400":
            return PullEnd.REFUSED
        case "409" if "consumer deleted" in words:
            return PullEnd.GONE
        case "409" if "exceeds maxbytes" in words or "batch completed" in words:
            return PullEnd.FILLED
        case "409" if "exceeded maxrequest" in words:
            return PullEnd.LIMITED if told_limits(description) != PullLimits() else PullEnd.REFUSED
        case "409" if "push based" in words:
            return PullEnd.REFUSED
        case _:
            # For example, too many others wait: that passes.
            return PullEnd.BROKEN


def told_limits(description: str) -> PullLimits:
    """The limit in the words of a status; no limit when they name none that could be obeyed."""
    match = _LIMIT.search(description.lower())
    if match is None:
        return PullLimits()
    name, value = match.groups()
    if name == "maxrequestexpires":
        try:
            # The nearest microsecond may be beyond a limit of nanoseconds, and would be refused for good.
            longest = duration.from_go(value, field="expires") - timedelta.resolution
            return PullLimits(expires=max(_SHORTEST, longest))
        except InvalidSpec:
            return PullLimits()
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 19 else 0
    return PullLimits(batch=number) if name == "maxrequestbatch" else PullLimits(max_bytes=number)


def told_left(headers: Mapping[str, str]) -> int:
    """The messages that a pull has asked for and will not get, by the status that ends it; all if it is silent."""
    value = headers.get("nats-pending-messages", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else sys.maxsize


_Limit = TypeVar("_Limit", int, timedelta)


def _lower(one: _Limit, other: _Limit) -> _Limit:
    """The lower of two limits; zero is no limit."""
    return min(one, other) if one and other else one or other
