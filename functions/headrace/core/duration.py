"""The two ways in which manifests write a time span.

Knative's delivery writes ISO 8601 (`PT1.5S`), the stream and consumer templates write Go's form (`1h30m`). Pure; called
when manifests and consumer metadata are read.
"""

from __future__ import annotations

import re
from datetime import timedelta

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted

_ISO = re.compile(
    r"P(?!$)(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d|\.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?|\.\d+)S)?)?",
    re.ASCII,
)
_GO = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)(?P<unit>ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_GO_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def from_iso(text: str, *, field: str) -> timedelta:
    """Read an ISO 8601 duration of days and smaller; years, months and weeks have no fixed length and are refused.

    Raises:
        InvalidSpec: naming `field` and quoting the text.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        raise InvalidSpec(
            f"{field} is {quoted(text)}, which is not an ISO 8601 duration: write for example PT0.5S, PT10S or PT1M",
            field=field,
        )
    whole, _, fraction = (match["seconds"] or "").partition(".")
    try:
        # In parts: a single float of many days would have no room for the microseconds.
        return timedelta(
            days=int(match["days"] or 0),
            hours=int(match["hours"] or 0),
            minutes=int(match["minutes"] or 0),
            seconds=int(whole or 0),
            microseconds=round(float(f"0.{fraction}") * 1e6),
        )
    # ValueError: the text has more digits than Python reads.
    except (OverflowError, ValueError):
        raise _too_long(text, field) from None


def from_go(text: str, *, field: str) -> timedelta:
    """Read a Go duration, as the peer's stream and consumer templates write it.

    Raises:
        InvalidSpec: naming `field` and quoting the text.
    """
    seconds, position = 0.0, 0
    # `match`, since a search in a text of digits alone would begin again at each digit.
    while match := _GO.match(text, position):
        seconds += float(match["number"]) * _GO_SECONDS[match["unit"]]
        position = match.end()
    if text == "0":
        return timedelta()
    if position != len(text) or not text:
        raise InvalidSpec(
            f"{field} is {quoted(text)}, which is not a duration: write for example 500ms, 30s, 5m or 1h", field=field
        )
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise _too_long(text, field) from None


def to_iso(span: timedelta) -> str:
    """Write a span of 0 or more as ISO 8601 seconds: `PT0.2S`."""
    whole, rest = divmod(span, timedelta(seconds=1))
    return f"PT{whole}.{rest.microseconds:06}".rstrip("0").rstrip(".") + "S"


def _too_long(text: str, field: str) -> InvalidSpec:
    return InvalidSpec(f"{field} is {quoted(text)}, which is longer than any clock can wait", field=field)
