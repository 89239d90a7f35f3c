"""Which parked events a command means, one after the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from headrace.core.delivery.parked import Parked
from headrace.core.delivery.parked import ParkedFilter as WantedParked
from headrace.core.errors import Refused
from headrace.core.event.nats_codec import FOREIGN_TYPE
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.aside import ParkedEvents
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import Channel
from headrace_cli.events.filters import EventFilter

PAGE = 500


@dataclass(frozen=True, slots=True)
class Selection:
    """By position, or by what is known of them; all when nothing is said.

    Attributes:
        subscription: `namespace/name`, or a name in any namespace.
    """

    positions: tuple[int, ...] = ()
    parked: WantedParked = field(default_factory=WantedParked)
    events: EventFilter = field(default_factory=EventFilter)
    subscription: str | None = None

    @property
    def everything(self) -> bool:
        return not self.positions and self.parked == WantedParked() and self.events.everything and not self.subscription

    def matches(self, one: Parked) -> bool:
        """Whether it is meant, as far as its event and Subscription tell."""
        whole, _, name = one.subscription.partition("/")
        return self.subscription in (None, one.subscription, name or whole) and self.events.matches(one.event)


class Shelf:
    """The parked events of one channel."""

    def __init__(self, session: Session, channel: Channel) -> None:
        """Raises:
        Refused: 404, the channel has no aside stream.
        """
        if channel.aside is None:
            problem = "the Go channel parks nothing" if channel.origin == "peer" else "it is made with the channel"
            raise Refused(f"channel {channel.ref} has no aside stream {channel.aside_name}: {problem}", status=404)
        self.channel = channel
        self.events = ParkedEvents(session.client, session.api, channel.aside_name)
        self._api: JetStreamApi = session.api

    async def each(self, chosen: Selection) -> AsyncGenerator[Parked]:
        """Those that are meant, without their data, oldest first; what is parked meanwhile is left out.

        Raises:
            Refused: 404, nothing is parked at a position that was named.
        """
        if chosen.positions:
            for position in chosen.positions:
                yield await self.events.show(position)
            return
        state = (await self._api.call(f"STREAM.INFO.{self.channel.aside_name}"))["state"]
        last, after = int(state["last_seq"]), 0
        while True:
            page = await self.events.page(chosen.parked, after=after, limit=PAGE)
            for one in page.events:
                # What is replayed and fails again is parked behind all these.
                if one.position > last:
                    return
                if chosen.matches(await self._known(one, chosen)):
                    yield one
            if page.next is None:
                return
            after = page.next

    async def _known(self, one: Parked, chosen: Selection) -> Parked:
        """With its data, where these may hold the event's attributes."""
        if chosen.events.everything or one.event.type != FOREIGN_TYPE:
            return one
        return await self.events.show(one.position)
