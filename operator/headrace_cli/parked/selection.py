"""Which parked events a command means. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core.delivery.parked import Parked, ParkedFilter
from headrace_cli.events.filters import EventFilter


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of parked events, by position or by their properties; an empty one chooses all.

    Attributes:
        subscription: `namespace/name`, or a name in any namespace.
    """

    positions: tuple[int, ...] = ()
    parked: ParkedFilter = field(default_factory=ParkedFilter)
    events: EventFilter = field(default_factory=EventFilter)
    subscription: str | None = None

    @property
    def everything(self) -> bool:
        return not self.positions and self.parked == ParkedFilter() and self.events.everything and not self.subscription

    def matches(self, one: Parked) -> bool:
        """Whether a parked event is chosen, judged by its event and Subscription."""
        whole, _, name = one.subscription.partition("/")
        return self.subscription in (None, one.subscription, name or whole) and self.events.matches(one.event)
