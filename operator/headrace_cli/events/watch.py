"""Looks at a channel's events: the stored ones (`peek`) and the coming ones (`tail`). Leaves no trace on the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from headrace_cli.access.stream_reader import MessageReader, StreamMessage
from headrace_cli.events.filters import EventFilter

# An event is seen so late at most; each look costs the server one small request.
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: at a sequence, at a time, with the last so many events, or with the next one."""

    sequence: int | None = None
    since: datetime | None = None
    last: int | None = None

    async def resolve(self, reader: MessageReader) -> int:
        """The sequence that the start means now."""
        if self.sequence is not None:
            return self.sequence
        if self.since is not None:
            return await reader.sequence_at(self.since)
        extent = await reader.extent()
        if self.last is not None:
            # Deleted events do not make the result shorter: the end of the stream is read backwards as far as need be.
            return await _nth_from_end(reader, extent.first, extent.last, self.last)
        return extent.last + 1


async def peek(reader: MessageReader, start: Start, wanted: EventFilter, limit: int) -> AsyncGenerator[StreamMessage]:
    """Up to `limit` wanted events that the stream holds now."""
    first, last = await start.resolve(reader), (await reader.extent()).last
    found = 0
    async with aclosing(reader.messages(first, last)) as messages:
        async for message in messages:
            if not wanted.matches(message.event):
                continue
            yield message
            found += 1
            if found >= limit:
                return


async def tail(reader: MessageReader, start: Start, wanted: EventFilter) -> AsyncGenerator[StreamMessage]:
    """Every wanted event from the start on, for ever."""
    at = await start.resolve(reader)
    while True:
        last = (await reader.extent()).last
        if last < at - 1:
            # The stream was made again, and its sequences have begun again.
            at = 1
        async with aclosing(reader.messages(at, last)) as messages:
            async for message in messages:
                if wanted.matches(message.event):
                    yield message
        at = max(at, last + 1)
        await asyncio.sleep(POLL_SECONDS)


async def _nth_from_end(reader: MessageReader, first: int, last: int, count: int) -> int:
    width = count
    while True:
        at = max(first, last - width + 1)
        async with aclosing(reader.messages(at, last)) as messages:
            sequences = [message.sequence async for message in messages]
        if len(sequences) >= count or at <= first:
            return sequences[-count] if len(sequences) >= count > 0 else (at if count else last + 1)
        width *= 4
