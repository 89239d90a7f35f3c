"""Options as Spark gives them: names in lower case, values as text; checked one by one, with errors that help.

Knows kinds of values; does not know which options there are. Used by `connection_options`, `options` and the writer.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from headrace.core.errors import Misconfigured

_SHOWN = 80
_TRUE_FALSE = {"true": True, "false": False}
# Numbers below are seconds in the years from 1970 to 5138, and no stream is so old.
_LEAST_MILLISECONDS = 100_000_000_000
# The end of the year 9999; larger numbers are in a finer unit.
_MOST_MILLISECONDS = 253_402_300_799_999
# The largest number of the JVM and of NATS.
_MOST = 2**63 - 1
_MOST_SECONDS = 86_400


def wrong(name: str, value: str, what_to_do: str) -> Misconfigured:
    """The error for a value that can't be used."""
    beginning = value if len(value) <= _SHOWN else f"{value[: _SHOWN - 3]}..."
    return Misconfigured(f"option {name} is {beginning!r}: {what_to_do}", field=name)


class Values:
    """The given options, read by their documented names, in any case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value).strip() for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return bool(self._given.get(name.lower()))

    def refuse_unknown(self, known: Iterable[str], instead: Mapping[str, str]) -> None:
        """Args:
            instead: the advice for names that people try, in lower case.

        Raises:
        Misconfigured: an option has none of these names; the message has the likely one. Or it is empty, as from a
            variable that is not set: "all" or "none" would be a guess.
        """
        names = {name.lower(): name for name in known}
        for given in self._given:
            if given not in names and given in instead:
                raise Misconfigured(f"there is no option {given!r}: {instead[given]}", field=given)
            if given not in names:
                close = difflib.get_close_matches(given, names, n=1)
                hint = f"did you mean {names[close[0]]}?" if close else f"known are {', '.join(sorted(names.values()))}"
                raise Misconfigured(f"there is no option {given!r}: {hint}", field=given)
            if not self._given[given]:
                raise wrong(names[given], "", "write a value, or leave it out")

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name.lower()) or default

    def names(self, name: str) -> tuple[str, ...]:
        """Parts between commas, or the elements of a JSON list."""
        text = self.text(name)
        if text.startswith("["):
            parts = self.parsed(name, list)
            if not all(isinstance(part, str) for part in parts):
                raise wrong(name, text, 'write names with commas, or a JSON list of them, as ["A", "B"]')
        else:
            parts = text.split(",")
        if text and not any(part.strip() for part in parts):
            raise wrong(name, text, "it names nothing: write names with commas, or leave it out")
        return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if not text:
            return default
        if text.lower() not in _TRUE_FALSE:
            raise wrong(name, text, "write true or false")
        return _TRUE_FALSE[text.lower()]

    def number(self, name: str, default: int, *, least: int = 1, most: int = _MOST) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise wrong(name, text, f"write a whole number of at least {least}")
        if int(text) > most:
            raise wrong(name, text, f"write at most {most}")
        return int(text)

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name).removesuffix("s")
        if not text:
            return default
        if not (text.isascii() and text.replace(".", "", 1).isdecimal()) or float(text) <= 0:
            raise wrong(name, self.text(name), "write seconds, more than none, as 30 or 30s")
        if float(text) > _MOST_SECONDS:
            raise wrong(name, self.text(name), f"write at most {_MOST_SECONDS}, which is a day")
        return float(text)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of these words, in any case."""
        text = self.text(name)
        by_case = {choice.lower(): choice for choice in choices}
        if not text:
            return default
        if text.lower() not in by_case:
            raise wrong(name, text, f"write one of {', '.join(by_case.values())}")
        return by_case[text.lower()]

    def time(self, name: str) -> int:
        """Nanoseconds since the epoch, from RFC 3339 with an offset or from milliseconds as in Spark's Kafka source."""
        text = self.text(name)
        if text.isascii() and text.isdecimal():
            if int(text) < _LEAST_MILLISECONDS:
                raise wrong(name, text, "as milliseconds since 1970 that is before 1973: are these seconds? Add 000")
            if int(text) > _MOST_MILLISECONDS:
                raise wrong(name, text, "as milliseconds since 1970 that is beyond the year 9999: is it a finer unit?")
            return int(text) * 1_000_000
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise wrong(name, text, "write a time with its offset, as 2026-01-31T09:30:00Z, or milliseconds since 1970")
        return round(moment.timestamp() * 1_000_000) * 1_000

    def parsed(self, name: str, kind: type) -> Any:
        """The value, parsed as JSON."""
        text = self.text(name)
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, kind):
            raise wrong(name, text, f"write a JSON {'object' if kind is dict else 'list'}")
        return value
