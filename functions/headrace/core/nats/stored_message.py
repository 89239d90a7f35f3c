"""One message as it lies in a stream, as the API tells of it (`STREAM.MSG.GET`), and the times that servers write."""

from __future__ import annotations

import base64
from calendar import timegm
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from headrace.core.nats.nats_wire import Headers

_NANOSECONDS = 1_000_000_000


class StoredMessage(NamedTuple):
    """Attributes:
    headers: names in lower case.
    time_ns: when the server stored it, nanoseconds since the epoch.
    """

    subject: str
    sequence: int
    headers: Headers
    data: bytes
    time_ns: int

    @property
    def time(self) -> datetime:
        """`time_ns` as a datetime, rounded down to microseconds."""
        return moment(self.time_ns)


def read_stored(message: Mapping[str, Any]) -> StoredMessage:
    """Args:
    message: the member of this name in the API's answer.
    """
    return StoredMessage(
        str(message["subject"]),
        int(message["seq"]),
        Headers(base64.b64decode(message.get("hdrs", ""))),
        base64.b64decode(message.get("data", "")),
        nanoseconds(message["time"]),
    )


def nanoseconds(text: str) -> int:
    """Nanoseconds since the epoch, exactly, from a time as the server writes it: in UTC with up to nine decimals."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    return _seconds(seconds) * _NANOSECONDS + int(fraction.ljust(9, "0") or 0)


def moment(time_ns: int) -> datetime:
    """The datetime of nanoseconds since the epoch, rounded down to microseconds."""
    seconds, rest = divmod(time_ns, _NANOSECONDS)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


@lru_cache(1024)
def _seconds(text: str) -> int:
    """Cached, since many messages are of the same second."""
    date, _, clock = text.partition("T")
    year, month, day = map(int, date.split("-"))
    hour, minute, second = map(int, clock.split(":"))
    return timegm((year, month, day, hour, minute, second, 0, 0, 0))
