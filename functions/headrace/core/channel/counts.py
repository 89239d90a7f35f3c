"""How much waits for each subscriber, told in the status without flooding the API server (ADR 023).

Numbers are rounded, and a status that differs in nothing else is written every 30 s at most; any other change takes the
newest numbers along. The numbers also decide when they are counted again: never, while nothing waits. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

REFRESH = timedelta(seconds=30)
"""The shortest time between two writes of a status in which only numbers differ."""
SLOWEST = timedelta(minutes=5)
"""A backlog that does not move is looked at less and less often, but at least this often."""
MOST_PARKED = 10_000
"""Beyond this, a channel's parked events are not counted by subscriber: the server would have to list them all."""

COUNTED_AT = "countedAt"
_NUMBERS = ("lag", "pending", "redelivered", "parked")


@dataclass(frozen=True, slots=True)
class Backlog:
    """The waiting events of one subscriber.

    Attributes:
        lag: events that it has not settled, delivered or not.
        pending: those of them that were never delivered.
        redelivered: those of them that were delivered more than once.
        parked: events kept aside for it; None when they were not counted.
    """

    lag: int = 0
    pending: int = 0
    redelivered: int = 0
    parked: int | None = 0

    def to_json(self) -> dict[str, int]:
        """The counts as the status has them, rounded."""
        found = {"lag": self.lag, "pending": self.pending, "redelivered": self.redelivered, "parked": self.parked}
        return {key: rounded(value) for key, value in found.items() if value is not None}


def counted(infos: Iterable[Mapping[str, Any]], parked: Iterable[str] | None) -> dict[str, Backlog]:
    """The backlog of each consumer, by its name.

    Args:
        infos: CONSUMER.LIST.
        parked: the subjects of all parked events; None when they were not listed.
    """
    whose = Counter(consumer_of(subject) for subject in parked or ())
    found = {}
    for info in infos:
        name = str(info["name"])
        pending, out = int(info.get("num_pending") or 0), int(info.get("num_ack_pending") or 0)
        found[name] = Backlog(
            lag=pending + out,
            pending=pending,
            redelivered=int(info.get("num_redelivered") or 0),
            parked=None if parked is None else whose[name],
        )
    return found


def consumer_of(subject: str) -> str:
    """The consumer that an event is parked for, from its subject in the aside stream."""
    return subject.partition("._knative_aside.parked.")[2].partition(".")[0]


def rounded(number: int) -> int:
    """Exact below 100, then the first two digits: 1234 becomes 1200."""
    if number < 100:
        return number
    unit: int = 10 ** (len(str(number)) - 2)
    return number // unit * unit


def calm(before: object, after: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status to write: `after`, or `before` as it stands when only numbers differ and it is too soon to write them.

    Numbers are the counts, and their mention in conditions of severity Info.

    Args:
        before: the present status; anything but an object counts as none.
    """
    known = before if isinstance(before, Mapping) else {}
    told = _moment(known.get(COUNTED_AT))
    only_numbers = told is not None and _without_numbers(known) == _without_numbers(after)
    soon = told is not None and timedelta() <= now - told < REFRESH
    if only_numbers and (soon or _unstamped(known) == after):
        return dict(known)
    return {**after, COUNTED_AT: now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def look_again(after: Mapping[str, Any], written: Mapping[str, Any], now: datetime) -> timedelta | None:
    """How long until the numbers have to be read again, although nothing notifies us; None for never.

    Args:
        after: the status with the present numbers.
        written: the status from `calm`.
    """
    told = _moment(written.get(COUNTED_AT))
    age = max(timedelta(), now - told) if told is not None else timedelta()
    if _unstamped(written) != after:
        return max(REFRESH - age, timedelta(seconds=1))
    if not any(row.get("lag") for row in written.get("consumers") or ()):
        return None
    return min(max(age, REFRESH), SLOWEST)


def _unstamped(status: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in status.items() if key != COUNTED_AT}


def _without_numbers(status: Mapping[str, Any]) -> dict[str, Any]:
    consumers = [
        {key: value for key, value in row.items() if key not in _NUMBERS} for row in _rows(status, "consumers")
    ]
    conditions = [
        {key: value for key, value in one.items() if key != "message" or one.get("severity") != "Info"}
        for one in _rows(status, "conditions")
    ]
    return {**_unstamped(status), "consumers": consumers, "conditions": conditions}


def _rows(status: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = status.get(key)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo else None
