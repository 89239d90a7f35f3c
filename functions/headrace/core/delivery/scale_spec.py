"""How many leases a subscriber deserves, and when, by annotations: a channel's for all, a Subscription's for itself.

Knows the annotations and their bounds. The scaler draws the conclusions (`headrace_operator.scaling.lag`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted

LAG_THRESHOLD = "headrace.dev/lag-threshold"
MAX_SCALE = "headrace.dev/max-scale"
WAKE = "headrace.dev/wake"


class Wake(StrEnum):
    """When a subscriber's sleeping `forward` is woken.

    EARLY: when a request wakes the channel's `receive`, whichever channel it is for. STORED: when an event is stored.
    """

    EARLY = "early"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class ScaleSpec:
    """One lease for each `lag_threshold` events that wait, and at most `max_scale` leases.

    Attributes:
        wake: None: EARLY where `receive` is this channel's alone, so that each event is known to be its own.
    """

    lag_threshold: int = 1000
    max_scale: int = 4
    wake: Wake | None = None


def from_annotations(
    annotations: Mapping[str, str], default: ScaleSpec | None = None, *, path: str = "metadata"
) -> ScaleSpec:
    """The scaling that annotations ask for.

    Args:
        default: for whatever they leave open; for a Subscription, the channel's.
        path: of the object with the annotations, for the error.

    Raises:
        InvalidSpec: naming the annotation and quoting its value.
    """
    default = default or ScaleSpec()
    return ScaleSpec(
        _number(annotations, LAG_THRESHOLD, default.lag_threshold, path),
        _number(annotations, MAX_SCALE, default.max_scale, path),
        _wake(annotations, default.wake, path),
    )


def _number(annotations: Mapping[str, str], name: str, default: int, path: str) -> int:
    text = annotations.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 9 and int(text) > 0):
        field = f"{path}.annotations[{name}]"
        raise InvalidSpec(f"{field} is {quoted(text)}: it should be a whole number from 1", field=field)
    return int(text)


def _wake(annotations: Mapping[str, str], default: Wake | None, path: str) -> Wake | None:
    text = annotations.get(WAKE)
    if text is None:
        return default
    if text not in list(Wake):
        field = f"{path}.annotations[{WAKE}]"
        raise InvalidSpec(f"{field} is {quoted(text)}: it should be {' or '.join(Wake)}", field=field)
    return Wake(text)
