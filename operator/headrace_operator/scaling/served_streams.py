"""The consumers that are served, as the server knows them: found by their metadata, watched by their counters.

This module reads JetStream and keeps what it said; it opens nothing and decides nothing. Called by
`headrace_operator.scaling.scaler`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.core.channel import position
from headrace.core.delivery import subscriber
from headrace.core.delivery.lease import Outcome
from headrace.core.delivery.scale_spec import Wake
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.errors import InvalidSpec, Refused, Unavailable
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.process import clock, log
from headrace.io.process.trouble import Trouble
from headrace_operator.scaling import lag, losses
from headrace_operator.scaling.lag import Outlook
from headrace_operator.scaling.stage_records import StageRecords

_log = log.get("scaler")


class LeaseCounts:
    """Adds the events of one lease to its consumer's counts, each time that the lease reports its total."""

    def __init__(self, total: dict[Outcome, int]) -> None:
        self._total = total
        self._counted: Counter[Outcome] = Counter()

    def __call__(self, so_far: Mapping[str, int]) -> None:
        for outcome in Outcome:
            more = max(0, so_far.get(outcome, 0) - self._counted[outcome])
            self._counted[outcome] += more
            self._total[outcome] += more

    @property
    def any(self) -> bool:
        return self._counted.total() > 0


@dataclass(slots=True)
class ScaledConsumer:
    """One consumer that is served, and the history of its leases.

    Attributes:
        opened, failures: leases since this process knows the consumer.
        trouble: the failures of leases since the last one that worked.
        counts: events per outcome, over all leases.
        full: whether its ack window was full when `is_turned` was asked last.
    """

    stream: str
    consumer: str
    subscriber: Subscriber
    outlook: Outlook
    opened: int = 0
    failures: int = 0
    trouble: Trouble = field(default_factory=Trouble)
    counts: dict[Outcome, int] = field(default_factory=lambda: dict.fromkeys(Outcome, 0))
    full: bool = False

    def is_turned(self) -> bool:
        """Has its ack window turned full, or got room, since this was last asked?"""
        before, self.full = self.full, self.outlook.counters.full
        return before != self.full

    def wakes_early(self, *, alone: bool) -> bool:
        """Is the consumer to be woken when a request wakes the channel's `receive`?

        It is woken only if it sleeps: one lease for each time that `receive` wakes, none beside another lease, and
        none while leases fail.

        Args:
            alone: that `receive` serves no other channel, so the request is surely for this one.
        """
        wanted = self.subscriber.wake is Wake.EARLY or (self.subscriber.wake is None and alone)
        return wanted and not self.outlook.open and not self.outlook.failures

    @property
    def key(self) -> tuple[str, str]:
        return self.stream, self.consumer

    @property
    def words(self) -> dict[str, str]:
        """The consumer's names, for the log."""
        return {"subscription": self.subscriber.full_name, "stream": self.stream, "consumer": self.consumer}

    @property
    def row(self) -> dict[str, Any]:
        """The consumer's state as JSON values."""
        known = self.outlook.counters
        return {
            "namespace": self.subscriber.namespace,
            "channel": self.subscriber.channel,
            "subscription": self.subscriber.name,
            "opened": self.opened,
            "open": self.outlook.open,
            "failures": self.failures,
            "pending": known.pending,
            "ack_pending": known.ack_pending,
            "window_full": known.full,
            "max_ack_pending": known.max_ack_pending,
            "events": {str(outcome): count for outcome, count in self.counts.items()},
        }


StreamState = tuple[str, int, int]
"""A stream's time of creation, last sequence and number of consumers."""

# The state does not show every change, such as a consumer that somebody made anew by hand.
LOOK_SECONDS = 300.0


@dataclass(slots=True)
class ServedStream:
    """One served stream: its consumers, their stage records, and its state from before the last look.

    Attributes:
        doubted: NATS was away; its servers may have lost events that consumers still remember.
    """

    consumers: dict[str, ScaledConsumer] = field(default_factory=dict)
    records: dict[str, StageRecords] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    listed_at: float = float("-inf")
    looked_at: float = float("-inf")
    state: StreamState | None = None
    doubted: bool = True
    listing: asyncio.Lock = field(default_factory=asyncio.Lock)


class ServedStreams:
    """All served streams with their consumers.

    Attributes:
        on_missing: called with a stream that does not exist, or has lost a consumer that was served.
        on_lost: called with a consumer whose events seem to have vanished while they waited, or that stands ahead of
            its stream.
        on_turned: called with a consumer whose delivery has changed or that is no longer served: its open leases would
            keep to the metadata that they read at their start.
    """

    def __init__(self, api: JetStreamApi) -> None:
        self._api = api
        self._streams: dict[str, ServedStream] = {}
        self.on_missing: list[Callable[[str], None]] = []
        self.on_turned: list[Callable[[ScaledConsumer], None]] = []
        self.on_lost: list[Callable[[ScaledConsumer], None]] = []

    def replace(self, names: Iterable[str]) -> bool:
        """Serve these streams and no others; True when some are new."""
        wanted = set(names)
        new = bool(wanted - self._streams.keys())
        for name in self._streams.keys() - wanted:
            for served in self._streams[name].consumers.values():
                self._turned(served)
        self._streams = {name: self._streams.get(name) or ServedStream() for name in sorted(wanted)}
        return new

    def names(self) -> list[str]:
        return list(self._streams)

    def get(self, name: str) -> ServedStream | None:
        return self._streams.get(name)

    def all(self) -> list[ScaledConsumer]:
        return [served for stream in self._streams.values() for served in stream.consumers.values()]

    def holds(self, served: ScaledConsumer) -> bool:
        """Is this consumer still served, and not replaced by a later one of its name?"""
        stream = self._streams.get(served.stream)
        return stream is not None and stream.consumers.get(served.consumer) is served

    def begin(self) -> None:
        """Look at all streams anew: another process may have served them meanwhile."""
        for stream in self._streams.values():
            stream.looked_at = float("-inf")

    def doubt(self) -> None:
        """NATS was away: see at the next look whether consumers stand ahead of their streams."""
        for stream in self._streams.values():
            stream.doubted = True

    def is_still(self, name: str, state: StreamState) -> bool:
        """Would a look at the stream's consumers tell nothing new?"""
        stream = self._streams.get(name)
        if stream is None:
            return True
        known = (served.outlook.counters for served in stream.consumers.values())
        recent = clock.monotonic() < stream.looked_at + LOOK_SECONDS
        return recent and stream.state == state and not any(one.pending or one.ack_pending for one in known)

    async def look_at(self, name: str, state: StreamState | None = None) -> None:
        """Read all consumers of a stream.

        Args:
            state: the stream's state, read a moment ago.

        Raises:
            Unavailable: JetStream did not answer.
            Refused: it will not.
        """
        stream = self._streams.get(name)
        if stream is None:
            return
        async with stream.listing:
            asked_at = stream.listed_at = clock.monotonic()
            infos = {str(info["name"]): info async for info in self._api.consumers(name)}
            stream.looked_at, stream.state = asked_at, state
            lost = stream.consumers.keys() - infos.keys()
            keyed = ((durable, self._found(stream, name, infos[durable])) for durable in infos)
            before = stream.consumers
            stream.consumers = {durable: served for durable, served in keyed if served is not None}
            for durable in before.keys() - stream.consumers.keys():
                self._turned(before[durable])
            if lost or (not infos and await self._api.find(f"STREAM.INFO.{name}") is None):
                for listener in self.on_missing:
                    listener(name)
            for durable, served in stream.consumers.items():
                known = lag.counters(infos[durable])
                vanished = losses.between_leases(served.outlook, known)
                dues = await self._dues(stream, served) if known.ack_pending and not served.outlook.open else None
                served.outlook = lag.seen(served.outlook, known, dues, asked_at, clock.monotonic())
                for tell in self.on_lost if vanished else ():
                    tell(served)
            if stream.doubted:
                await self._look_for_loss(name, stream, infos)

    async def _look_for_loss(self, name: str, stream: ServedStream, infos: Mapping[str, Mapping[str, Any]]) -> None:
        found = await self._api.find(f"STREAM.INFO.{name}")
        if found is None:
            return
        # A consumer whose servers are still electing is not in the list.
        stream.doubted = len(infos) < int(found["state"].get("consumer_count") or 0)
        for consumer in position.ahead(found, infos.values()).keys() & stream.consumers.keys():
            for tell in self.on_lost:
                tell(stream.consumers[consumer])

    async def look_closer(self, served: ScaledConsumer) -> None:
        """Ask the server about one consumer, which is cheaper than an idle lease; without an answer nothing changes."""
        asked_at = clock.monotonic()
        with suppress(Unavailable, Refused):
            info = await self._api.call(f"CONSUMER.INFO.{served.stream}.{served.consumer}", timeout=1.0)
            served.outlook = lag.seen(served.outlook, lag.counters(info), None, asked_at, clock.monotonic())

    def _found(self, stream: ServedStream, name: str, info: dict[str, Any]) -> ScaledConsumer | None:
        """The consumer as it is served; None when it is not ours, or has no deliveries."""
        consumer = str(info["name"])
        try:
            ours = subscriber.from_metadata(info["config"].get("metadata"))
        except InvalidSpec as error:
            if consumer not in stream.damaged:
                _log.error("consumer skipped", stream=name, consumer=consumer, error=str(error))
            stream.damaged.add(consumer)
            return None
        stream.damaged.discard(consumer)
        if ours is None or ours.state is not SubscriberState.READY:
            return None
        served = stream.consumers.get(consumer)
        if served is None:
            outlook = Outlook(ours.lag_threshold, ours.most_leases, broken_at=clock.monotonic())
            return ScaledConsumer(name, consumer, ours, outlook)
        if not _delivers_alike(served.subscriber, ours):
            self._turned(served)
        served.subscriber = ours
        served.outlook = replace(served.outlook, threshold=ours.lag_threshold, max_scale=ours.most_leases)
        return served

    def _turned(self, served: ScaledConsumer) -> None:
        for listener in self.on_turned:
            listener(served)

    async def _dues(self, stream: ServedStream, served: ScaledConsumer) -> tuple[float, ...]:
        ours = served.subscriber
        records = stream.records.get(ours.aside)
        if records is None:
            records = stream.records[ours.aside] = StageRecords(self._api, ours.names, ours.aside)
        await records.load(clock.wall())
        wall, now = clock.wall(), clock.monotonic()
        return tuple(now + due - wall for due in records.take(served.consumer, wall))


def _delivers_alike(old: Subscriber, new: Subscriber) -> bool:
    """Would a lease deliver alike for both? A new generation alone makes no difference."""
    scaling = {name: getattr(old, name) for name in ("lag_threshold", "max_scale", "wake")}
    return replace(new, generation=old.generation, **scaling) == old
