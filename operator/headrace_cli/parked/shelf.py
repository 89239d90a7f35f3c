"""The parked events of a channel: they are read page by page from its aside stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from headrace.core.delivery.parked import Parked
from headrace.core.errors import Refused
from headrace.core.event.nats_codec import FOREIGN_TYPE
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.aside import ParkedEvents
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel, channel, channels
from headrace_cli.catalog.names import ChannelScope
from headrace_cli.parked.selection import Selection

PAGE = 500


class Shelf:
    """The parked events of one channel."""

    def __init__(self, session: Session, channel: CatalogChannel) -> None:
        """Raises:
        Refused: 404, the channel has no aside stream.
        """
        if channel.aside is None:
            problem = "the Go channel parks nothing" if channel.origin == "peer" else "it is made with the channel"
            raise Refused(f"channel {channel.ref} has no aside stream {channel.aside_name}: {problem}", status=404)
        self.channel = channel
        self.events = ParkedEvents(session.client, session.api, channel.aside_name)
        self._api: JetStreamApi = session.api

    async def each(self, selection: Selection) -> AsyncGenerator[Parked]:
        """The chosen events, without their data, oldest first; events that are parked meanwhile are left out.

        Raises:
            Refused: 404, no event is parked at a position that was named.
        """
        if selection.positions:
            for position in selection.positions:
                yield await self.events.show(position)
            return
        state = (await self._api.call(f"STREAM.INFO.{self.channel.aside_name}"))["state"]
        last, after = int(state["last_seq"]), 0
        while True:
            page = await self.events.page(selection.parked, after=after, limit=PAGE)
            for one in page.events:
                # An event that is replayed and fails again is parked behind all these.
                if one.position > last:
                    return
                if selection.matches(await self._known(one, selection)):
                    yield one
            if page.next is None:
                return
            after = page.next

    async def count(self, selection: Selection) -> int:
        """How many events are chosen; raises as `each` does."""
        async with aclosing(self.each(selection)) as events:
            return len([one async for one in events])

    async def _known(self, one: Parked, selection: Selection) -> Parked:
        """The parked event, with its data if these may hold the event's attributes."""
        if selection.events.everything or one.event.type != FOREIGN_TYPE:
            return one
        return await self.events.show(one.position)


async def shelves(session: Session, scope: ChannelScope) -> list[Shelf]:
    """The shelves of a scope; a channel that is named and has none is an error.

    Raises:
        Refused: 404, the named channel does not exist, or has no aside stream.
    """
    if scope.channel is not None:
        return [Shelf(session, await channel(session.api, scope.channel))]
    known = [each for each in await channels(session.api) if each.aside is not None]
    return [Shelf(session, each) for each in known if scope.covers(each.ref)]
