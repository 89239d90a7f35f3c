"""CloudEvents' `time` as microseconds since the epoch, as Spark counts them. Pure."""

from __future__ import annotations

import re
from calendar import timegm
from datetime import MINYEAR

_MICROSECONDS = 1_000_000
# PySpark makes local times by `datetime.fromtimestamp`, which also asks for the day before; zones are up to 16 hours
# off.
_LEAST = timegm((1, 1, 3, 0, 0, 0))
_END = timegm((9999, 12, 31, 0, 0, 0))
_PARTS = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII)


def microseconds(time: str) -> int | None:
    """The microseconds of a valid RFC 3339 time, rounded down; None for a time that Python can't show in every zone.

    Such a time, like Go's zero time, would end the program that collects the row. A leap second counts as the next
    minute's first.
    """
    match = _PARTS.fullmatch(time)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    if year < MINYEAR:
        return None
    fraction = int((match[7] or "").ljust(6, "0")[:6])
    offset = (int(match[9]) * 60 + int(match[10])) * 60 if match[8] else 0
    seconds = timegm((year, month, day, hour, minute, second)) - (-offset if match[8] == "-" else offset)
    return seconds * _MICROSECONDS + fraction if _LEAST <= seconds < _END else None
