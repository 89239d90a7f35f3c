"""The counts of `forward`: the duration of POSTs by status, and the outcomes of its leases' events.

A POST costs a third of a microsecond here. Outcomes cost nothing: a snapshot reads the tallies of open leases
(ADR 028).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core import metric_families as families
from headrace.core.delivery.delivery import NO_ANSWER_CODE
from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.stage_record import Stage
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.http import HttpAnswer
from headrace.core.metrics import KNATIVE_BOUNDS, LONG_BOUNDS, Distribution, Labels, Snapshot, Timings, Value
from headrace.io.process import clock

SYSTEM = "knative"
"""The value of Knative's dispatchers under `messaging_system`."""


class Posts:
    """The POSTs of one stage of one Subscription; `stale`: those that met the end of a kept connection."""

    def __init__(self) -> None:
        self.stale = 0
        self._timings: dict[int | None, Timings] = {}

    def took(self, answer: HttpAnswer, seconds: float) -> None:
        """Count a POST and its seconds."""
        status = answer.status
        if status is None and answer.stale:
            self.stale += 1
        try:
            timings = self._timings[status]
        except KeyError:
            timings = self._timings[status] = Timings(KNATIVE_BOUNDS)
        timings.counts[bisect_left(KNATIVE_BOUNDS, seconds)] += 1
        timings.total += seconds

    @property
    def unanswered(self) -> int:
        timings = self._timings.get(None)
        return sum(timings.counts) if timings else 0

    def by_code(self) -> dict[str, Distribution]:
        """The durations by status; a POST without an answer counts under the status that Knative gives it."""
        found: dict[str, Distribution] = {}
        for status, timings in self._timings.items():
            code = str(NO_ANSWER_CODE if status is None else status)
            one, other = Distribution.of(timings), found.get(code)
            found[code] = one if other is None else _sum(one, other)
        return found


class ForwardCounts:
    """The counts of one `forward`."""

    def __init__(self) -> None:
        self._posts: dict[tuple[Labels, Stage], Posts] = {}
        self._ended: dict[Labels, Counter[Outcome]] = {}
        self._open: list[tuple[Labels, Tally]] = []
        self._leases = Timings(LONG_BOUNDS)

    def posts(self, subscriber: Subscriber, stage: Stage) -> Posts:
        """The counts of the POSTs of one stage."""
        return self._posts.setdefault((_labels(subscriber), stage), Posts())

    @contextmanager
    def lease(self, subscriber: Subscriber, tally: Tally) -> Iterator[None]:
        """Count a lease; for the time of the block a snapshot reads its tally."""
        opened = (_labels(subscriber), tally)
        began = clock.monotonic()
        self._open.append(opened)
        try:
            yield
        finally:
            # By identity: two leases may have equal tallies.
            self._open = [each for each in self._open if each is not opened]
            self._ended.setdefault(opened[0], Counter()).update(tally.counts)
            self._leases.took(clock.monotonic() - began)

    def snapshot(self, *, in_flight: int, in_flight_bytes: int) -> Snapshot:
        dispatched: dict[Labels, Value] = {}
        onward: dict[Labels, Value] = {}
        silent: Counter[Labels] = Counter()
        stale: Counter[Labels] = Counter()
        for (labels, stage), posts in self._posts.items():
            for code, distribution in posts.by_code().items():
                if stage is Stage.SUBSCRIBER:
                    dispatched[(*labels, SYSTEM, code)] = distribution
                else:
                    onward[(*labels, stage.name.lower(), code)] = distribution
            silent[labels] += posts.unanswered
            stale[labels] += posts.stale
        return {
            families.DISPATCH_SECONDS.name: dispatched,
            families.ONWARD_SECONDS.name: onward,
            families.NO_ANSWERS.name: {labels: float(count) for labels, count in silent.items()},
            families.STALE_CONNECTIONS.name: {labels: float(count) for labels, count in stale.items()},
            families.FORWARDED.name: self._outcomes(),
            families.LEASES_OPEN.name: {(): len(self._open)},
            families.LEASE_SECONDS.name: {(): Distribution.of(self._leases)},
            families.IN_FLIGHT.name: {(): in_flight},
            families.IN_FLIGHT_BYTES.name: {(): in_flight_bytes},
        }

    def _outcomes(self) -> dict[Labels, Value]:
        counts = {labels: Counter(ended) for labels, ended in self._ended.items()}
        for labels, tally in self._open:
            counts.setdefault(labels, Counter()).update(tally.counts)
        return {(*labels, str(outcome)): counted[outcome] for labels, counted in counts.items() for outcome in Outcome}


def _labels(subscriber: Subscriber) -> Labels:
    return subscriber.namespace, subscriber.channel, subscriber.name


def _sum(one: Distribution, other: Distribution) -> Distribution:
    return Distribution(tuple(a + b for a, b in zip(one.counts, other.counts, strict=True)), one.total + other.total)
