"""How old the oldest unsettled event of each consumer is, and how much the streams and their aside streams hold.

It is read from JetStream every 15 s, and only while somebody scrapes: nothing else needs it. A value that can't be read
this time is left out, and the time of the last whole reading is given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headrace.core import metric_families as families
from headrace.core import names
from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.metrics import Family, Labels
from headrace.core.nats.stored_message import nanoseconds
from headrace.core.nats.stream import CHANNEL_KEY, NAMESPACE_KEY
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.process import clock

READ_SECONDS = 15.0
# A rare scrape gets the values of a minute ago, not of yesterday.
STALE_SECONDS = 300.0
ASK_SECONDS = 2.0
AT_ONCE = 8
# The server names each subject in its answer.
MOST_COUNTED = 20_000

ConsumerRows = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Gives the scaler's rows by `stream/consumer`."""


@dataclass
class StorageReading:
    """Values by family and labels.

    Attributes:
        whole: nothing failed to be read.
    """

    values: dict[Family, dict[Labels, float]] = field(default_factory=dict)
    whole: bool = True

    def note(self, family: Family, labels: Labels, value: float) -> None:
        self.values.setdefault(family, {})[labels] = value


class Storage:
    """Reads the streams in the background, and gives the last reading."""

    def __init__(
        self,
        api: JetStreamApi,
        streams: Callable[[], Iterable[str]],
        rows: ConsumerRows,
        *,
        ask: Callable[[Callable[[], None]], object] = lambda run: run(),
    ) -> None:
        """Args:
        streams: the channels' streams.
        ask: runs a callable on the loop, from whichever thread calls `latest`.
        """
        self._ask = ask
        self._api = api
        self._streams = streams
        self._rows = rows
        self._wanted = asyncio.Event()
        self._latest: StorageReading | None = None
        self._read_at = 0.0

    def latest(self) -> Mapping[Family, Mapping[Labels, float]]:
        """The last reading; the call causes another one soon."""
        self._ask(self._wanted.set)
        if self._latest is None or clock.wall() - self._read_at > STALE_SECONDS:
            return {}
        return self._latest.values

    async def run(self) -> None:
        """Read whenever `latest` was called since the last reading, for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.refresh()
            await asyncio.sleep(READ_SECONDS)

    async def refresh(self) -> None:
        reading, limit = StorageReading(), asyncio.Semaphore(AT_ONCE)

        async def one(work: Callable[[], Awaitable[None]]) -> None:
            async with limit:
                # While NATS is away, each further stream would take as long to fail.
                if reading.whole:
                    try:
                        await work()
                    except Unavailable:
                        reading.whole = False
                    except (HeadraceError, KeyError, TypeError, ValueError):
                        # A stream that can't be asked or answers in another form hides no other stream.
                        pass

        works = [partial(self._stream, stream, reading) for stream in self._streams()]
        works += [partial(self._oldest, place, row, reading) for place, row in self._rows().items()]
        await asyncio.gather(*(one(work) for work in works))
        if reading.whole:
            self._read_at = clock.wall()
        reading.note(families.STORAGE_READ, (), self._read_at)
        self._latest = reading

    async def _stream(self, stream: str, reading: StorageReading) -> None:
        info = await self._api.find(f"STREAM.INFO.{stream}", timeout=ASK_SECONDS)
        if info is None:
            return
        metadata = info["config"].get("metadata") or {}
        labels = (metadata.get(NAMESPACE_KEY, ""), metadata.get(CHANNEL_KEY, ""))
        if not all(labels):
            # A stream that somebody else has made is labelled by the parts of its name, if the name is plain.
            labels = names.parse_stream(stream) or ("", stream)
        state, config = info["state"], info["config"]
        reading.note(families.STREAM_MESSAGES, labels, state["messages"])
        reading.note(families.STREAM_BYTES, labels, state["bytes"])
        for family, limit in ((families.STREAM_MAX_BYTES, "max_bytes"), (families.STREAM_MAX_MESSAGES, "max_msgs")):
            if config.get(limit, -1) > 0:
                reading.note(family, labels, config[limit])
        await self._aside(names.aside(stream), labels, reading)

    async def _aside(self, aside: str, labels: Labels, reading: StorageReading) -> None:
        info = await self._api.find(f"STREAM.INFO.{aside}", timeout=ASK_SECONDS)
        if info is None:
            return
        messages = parked = info["state"]["messages"]
        if 0 < messages <= MOST_COUNTED:
            asked = {"subjects_filter": names.parked_subjects()}
            counted = await self._api.find(f"STREAM.INFO.{aside}", asked, timeout=ASK_SECONDS)
            parked = len((counted or {"state": {}})["state"].get("subjects") or {})
        reading.note(families.PARKED, labels, parked)
        reading.note(families.ASIDE_MESSAGES, labels, messages)
        reading.note(families.ASIDE_BYTES, labels, info["state"]["bytes"])
        if info["config"].get("max_bytes", -1) > 0:
            reading.note(families.ASIDE_MAX_BYTES, labels, info["config"]["max_bytes"])

    async def _oldest(self, place: str, row: Mapping[str, Any], reading: StorageReading) -> None:
        labels = tuple(str(row[label]) for label in families.SUBSCRIPTION)
        if not row["pending"] and not row["ack_pending"]:
            reading.note(families.OLDEST_SECONDS, labels, 0.0)
            return
        stream, _, consumer = place.partition("/")
        info = await self._api.find(f"CONSUMER.INFO.{stream}.{consumer}", timeout=ASK_SECONDS)
        if info is None:
            return
        after = {
            "seq": int(info["ack_floor"]["stream_seq"]) + 1,
            "next_by_subj": info["config"].get("filter_subject", ">"),
        }
        found = await self._api.find(f"STREAM.MSG.GET.{stream}", after, timeout=ASK_SECONDS)
        stored = clock.wall() if found is None else nanoseconds(found["message"]["time"]) / 1e9
        reading.note(families.OLDEST_SECONDS, labels, round(max(0.0, clock.wall() - stored), 3))
