"""The counts of `receive`; an event costs a third of a microsecond here (ADR 028)."""

from __future__ import annotations

from bisect import bisect_left

from headrace.core import metric_families as families
from headrace.core import names
from headrace.core.metrics import SHORT_BOUNDS, Distribution, Labels, Snapshot, Timings, Value
from headrace.core.nats.jetstream import PubAck
from headrace.io.process import usage

# Only channels that have stored an event are named, but nothing bounds their number.
MOST_CHANNELS = 1000
OTHERS = ("(others)", "(others)")


class ReceiveCounts:
    """The counts of one `receive`; `long_way` are stored events by way of ASGI: `Counts` counts their answers."""

    def __init__(self) -> None:
        self._stored: dict[str, int] = {}
        self._duplicates: dict[str, int] = {}
        self._refused: dict[int, int] = {}
        self._timings = Timings(SHORT_BOUNDS)
        self._first: float | None = None
        self.long_way = 0

    def stored(self, subject: str, ack: PubAck, seconds: float) -> None:
        """Count an event that was acknowledged so many seconds after its arrival."""
        try:
            self._stored[subject] += 1
        except KeyError:
            subject = self._begin(subject)
        if ack.duplicate:
            self._duplicates[subject] = self._duplicates.get(subject, 0) + 1
        timings = self._timings
        timings.counts[bisect_left(SHORT_BOUNDS, seconds)] += 1
        timings.total += seconds

    def refused(self, code: int) -> None:
        """Count an event that the short way has refused."""
        self._refused[code] = self._refused.get(code, 0) + 1

    def snapshot(self, waiting: int) -> Snapshot:
        by_short_way = sum(self._stored.values()) - self.long_way
        codes = {**self._refused, 202: by_short_way} if by_short_way else self._refused
        started: dict[Labels, Value] = {} if self._first is None else {("receive", "answer"): round(self._first, 3)}
        return {
            families.REQUESTS.name: {("receive", str(code)): count for code, count in codes.items()},
            families.STARTED.name: started,
            families.STORED.name: {_labels(subject): count for subject, count in self._stored.items()},
            families.DUPLICATES.name: {_labels(subject): count for subject, count in self._duplicates.items()},
            families.STORE_SECONDS.name: {(): Distribution.of(self._timings)},
            families.WAITING_BYTES.name: {(): waiting},
        }

    def _begin(self, subject: str) -> str:
        """Count the first event of a channel, or an event of the channels beyond MOST_CHANNELS."""
        if self._first is None:
            self._first = usage.age()
        if len(self._stored) >= MOST_CHANNELS:
            subject = ""
        self._stored[subject] = self._stored.get(subject, 0) + 1
        return subject


def _labels(subject: str) -> tuple[str, str]:
    return names.labels(subject) if subject else OTHERS
