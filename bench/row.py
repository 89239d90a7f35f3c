"""A row of the bench, as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.sample import Sample
from bench.stage import Stage


class NotMeasured(Exception):
    """A row can't be measured here; says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        floor: name of the row that it is divided by; floors have none.
        share: part of the events that it sends: the slow ones send fewer.
        go_channel_us: CPU µs per event of the Go implementation of this CRD (eventing-natss at 03a34594),
            measured in another run: 2 cores, nats-server 2.15.1, file storage, 1 KiB binary events, as many
            connections; for `forward` its pull dispatcher as it comes. None: nobody has measured it.
    """

    name: str
    what: str
    measure: Callable[[Stage, int], Sample]
    floor: str | None = None
    share: float = 1.0
    go_channel_us: float | None = None
