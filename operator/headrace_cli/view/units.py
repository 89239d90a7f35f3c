"""Sizes, ages, rates and numbers as people read them, and the times that people write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from headrace.core import duration
from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.quoting import quoted

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION = re.compile(r"(\.\d{6})\d+")


def size(count: int) -> str:
    """Bytes: `0 B`, `1.5 KiB`, `3.0 GiB`; unlimited below zero."""
    if count < 0:
        return "unlimited"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(moment: datetime | None, now: datetime) -> str:
    """An age in kubectl's form: `5s`, `12m`, `3h`, `7d`; `-` for never."""
    if moment is None:
        return "-"
    return span((now - moment).total_seconds())


def span(seconds: float) -> str:
    """A time span in its largest unit, rounded down."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length * (2 if unit != "m" else 1):
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def moment(text: str | None) -> datetime | None:
    """A time as the server writes it, with nanoseconds; None for its zero."""
    if not text:
        return None
    read = datetime.fromisoformat(_FRACTION.sub(r"\1", text).replace("Z", "+00:00"))
    return None if read < _NEVER else read


def stamp(when: datetime) -> str:
    """`2026-01-31T09:30:00.123Z`."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def asked_moment(text: str, now: datetime, option: str) -> datetime:
    """A time that somebody has typed: RFC 3339, or an age before now such as `10m`, `2h`, `3d`.

    Raises:
        Misconfigured: the text is neither.
    """
    if text[:1].isdigit() and "-" not in text:
        return now - asked_span(text, option)
    try:
        read = datetime.fromisoformat(_FRACTION.sub(r"\1", text).replace("Z", "+00:00"))
    except ValueError:
        wanted = "give a time as 2026-01-31T09:30:00Z, or an age as 10m, 2h or 3d"
        raise Misconfigured(f"{option} is {quoted(text)}: {wanted}", field=option) from None
    return read if read.tzinfo is not None else read.astimezone()


def asked_span(text: str, option: str) -> timedelta:
    """A time span that somebody has typed: `90s`, `10m`, `2h`, `3d`, or seconds.

    Raises:
        Misconfigured: the text is no time span.
    """
    try:
        if re.fullmatch(r"\d+(\.\d+)?d", text):
            return timedelta(days=float(text[:-1]))
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return timedelta(seconds=float(text))
        return duration.from_iso(text, field=option) if text.startswith("P") else duration.from_go(text, field=option)
    except (InvalidSpec, OverflowError):
        wanted = "give a time span, as 90s, 10m, 2h or 3d"
        raise Misconfigured(f"{option} is {quoted(text)}: {wanted}", field=option) from None
