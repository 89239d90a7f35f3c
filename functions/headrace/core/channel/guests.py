"""The functions that the channels of one namespace have in another one, and which of them are within a bound.

The oldest are: so whoever counts comes to the same end, whichever channel is looked at. The operator counts, since a
call of the hook shows one channel only; `headrace.core.channel.children` draws the conclusion. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from headrace.core.channel.child_marks import CHANNEL_ANNOTATION


@dataclass(frozen=True, slots=True)
class Guests:
    """The functions of the other channels of a channel's namespace, in one place.

    Attributes:
        others: how many there are.
        older: how many of them are older than a function of the channel's own, by its name; left out where none is.
    """

    others: int = 0
    older: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"others": self.others, "older": dict(self.older)}

    @classmethod
    def from_json(cls, body: object) -> Self:
        """Read it; what is damaged counts as nothing."""
        known = body if isinstance(body, Mapping) else {}
        others, older = known.get("others"), known.get("older")
        counts = older.items() if isinstance(older, Mapping) else ()
        told = {str(name): count for name, count in counts if type(count) is int}
        return cls(others if type(others) is int else 0, told)


def of(functions: Iterable[Mapping[str, Any]], channel: str) -> dict[str, Guests]:
    """The functions that a channel, as namespace/name, is among, by the namespace where they are."""
    others: dict[str, int] = {}
    older: dict[str, dict[str, int]] = {}
    for metadata in sorted((one["metadata"] for one in functions), key=_age):
        place, before = metadata["namespace"], others.get(metadata["namespace"], 0)
        if (metadata.get("annotations") or {}).get(CHANNEL_ANNOTATION) != channel:
            others[place] = before + 1
        elif before:
            older.setdefault(place, {})[metadata["name"]] = before
    return {place: Guests(count, older.get(place, {})) for place, count in others.items()}


def admitted(wanted: Sequence[str], existing: Iterable[Mapping[str, Any]], known: Guests, most: int) -> frozenset[str]:
    """The functions that are within the bound.

    Args:
        wanted: their names, the most important first.
        existing: the channel's own functions at that place, as they are.
        known: those of the other channels there.
        most: functions of all channels of the namespace.
    """
    within: list[str] = []
    names = dict.fromkeys(wanted)
    there = sorted((one["metadata"] for one in existing if one["metadata"]["name"] in names), key=_age)
    for metadata in there:
        if known.older.get(metadata["name"], 0) + len(within) < most:
            within.append(metadata["name"])
    old = {metadata["name"] for metadata in there}
    room = max(0, most - known.others - len(within))
    return frozenset((*within, *[name for name in names if name not in old][:room]))


def _age(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Kubernetes tells the time of creation to the second."""
    return str(metadata.get("creationTimestamp", "")), str(metadata["name"])
