"""A reader of a stream, by sequence: it asks questions only, makes no consumer, and so leaves no trace.

It is right for every kind of stream, also where a consumer would keep events or take them from somebody. Several
questions are on their way at once, since each waits for the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.core.errors import InvalidEvent
from headrace.core.event import nats_codec
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.nats.nats_wire import Headers
from headrace.core.nats.stored_message import read_stored
from headrace.io.jetstream.api import JetStreamApi

AHEAD = 32


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """One message of a stream.

    Attributes:
        headers: names in lower case.
        time: when the server stored it.
    """

    stream: str
    subject: str
    sequence: int
    time: datetime
    headers: Headers
    data: bytes

    @property
    def message(self) -> NatsMessage:
        return NatsMessage(self.subject, self.headers, self.data)

    @property
    def event(self) -> Event:
        """The event as its subscribers get it; of a message that is no valid event, the bytes."""
        try:
            return nats_codec.from_nats(self.message, stream=self.stream, sequence=self.sequence)
        except InvalidEvent:
            return nats_codec.foreign(self.message, self.stream, self.sequence)


@dataclass(frozen=True, slots=True)
class Extent:
    """The sequences that a stream holds; `last` is below `first` when it is empty."""

    first: int
    last: int


class MessageReader:
    """Questions to one stream; they raise Unavailable, and ApiError where the stream does not exist."""

    def __init__(self, api: JetStreamApi, stream: str) -> None:
        self._api = api
        self._stream = stream

    async def extent(self) -> Extent:
        state = (await self._api.call(f"STREAM.INFO.{self._stream}"))["state"]
        return Extent(int(state["first_seq"]), int(state["last_seq"]))

    async def at(self, sequence: int) -> StreamMessage | None:
        """The message of one sequence."""
        return await self._get({"seq": sequence})

    async def next(self, sequence: int) -> StreamMessage | None:
        """The first message at or behind a sequence; None at the end."""
        return await self._get({"seq": max(1, sequence), "next_by_subj": ">"})

    async def messages(self, first: int, last: int) -> AsyncGenerator[StreamMessage]:
        """The messages from `first` to `last`, both included, in their order; deleted ones are passed over."""
        at = max(1, first)
        while at <= last:
            upto = min(last, at + AHEAD - 1)
            several = await asyncio.gather(*(self.at(sequence) for sequence in range(at, upto + 1)))
            found = [each for each in several if each is not None]
            for each in found:
                yield each
            at = upto + 1
            if not found:
                # A gap may be millions wide.
                beyond = await self.next(at)
                if beyond is None:
                    return
                at = beyond.sequence

    async def sequence_at(self, moment: datetime) -> int:
        """The first sequence that was stored at `moment` or later; one beyond the last when there is none."""
        extent = await self.extent()
        low, high = extent.first, extent.last + 1
        while low < high:
            middle = (low + high) // 2
            found = await self.next(middle)
            if found is None or found.sequence >= high:
                # No message lies between, so the one that is sought is before the middle.
                high = middle
            elif found.time < moment:
                low = found.sequence + 1
            else:
                high = middle
        return low

    async def _get(self, body: dict[str, Any]) -> StreamMessage | None:
        found = await self._api.find(f"STREAM.MSG.GET.{self._stream}", body)
        return None if found is None else stored(self._stream, found["message"])


def stored(stream: str, message: dict[str, Any]) -> StreamMessage:
    """A message read from the API's answer."""
    found = read_stored(message)
    return StreamMessage(stream, found.subject, found.sequence, found.time, found.headers, found.data)
