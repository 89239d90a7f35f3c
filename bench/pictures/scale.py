"""Axes and units: round ticks, and numbers as a person reads them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_SECONDS = ((" ms", 0.001), (" s", 1.0), (" min", 60.0), (" h", 3600.0))
_BYTES = ((" B", 1.0), (" KiB", 1024.0), (" MiB", 1024.0**2), (" GiB", 1024.0**3))
_COUNTS = (("", 1.0), (" K", 1000.0), (" M", 1_000_000.0))


def ticks(most: float, wanted: int = 4, unit: str = "short") -> Sequence[float]:
    """From 0 to the first round number that is not below `most`, in 2 to twice `wanted` steps."""
    if most <= 0:
        return (0.0, 1.0)
    rough = most / wanted
    # Steps are round in the unit in which the axis is worded.
    grain = _unit(most, unit)[1]
    power = 10 ** math.floor(math.log10(rough / grain))
    step = next(part * power * grain for part in (1, 2, 2.5, 5, 10) if part * power * grain >= rough * 0.999)
    count = math.ceil(most / step - 1e-9)
    return tuple(step * number for number in range(count + 1))


def worded(value: float, unit: str, most: float = 0.0) -> str:
    """A number with its unit, and no more than three digits that count.

    Args:
        unit: Grafana's name of it; one that is not known here is left out.
        most: of the axis that it is on, whose numbers all have one unit.
    """
    if unit == "percentunit":
        return f"{_digits(value * 100)} %"
    word, size = _unit(most or value, unit)
    if not value and unit not in ("s", "bytes"):
        word = ""
    ending = {"eps": " ev/s", "reqps": " req/s"}.get(unit, "")
    return f"{_digits(value / size)}{word}{ending}"


def _unit(value: float, unit: str) -> tuple[str, float]:
    table = {"s": _SECONDS, "bytes": _BYTES}.get(unit, _COUNTS)
    # Two minutes are better read as 120 s.
    enough = 3 if unit == "s" else 1
    found = next((each for each in reversed(table) if abs(value) >= each[1] * (enough if each[1] > 1 else 1)), table[0])
    return found if value or unit != "s" else table[1]


def _digits(value: float) -> str:
    places = next((places for places, least in enumerate((100, 10, 1)) if abs(value) >= least), 3)
    words = f"{value:.{places}f}"
    return words.rstrip("0").rstrip(".") if "." in words else words
