"""From a frame to its subscriber: the subscriptions of one engine, by number. All links of the engine share them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.core.nats.nats_wire import AnswerRun, Arrival, PullRun, Run
from headrace.io.nats.contract import OnArrival

OnRun: TypeAlias = Callable[[Run], None]
# Frames that belong to a subscription.
ForSubscribers = (Arrival, AnswerRun, PullRun)


@dataclass(frozen=True, slots=True)
class Routes:
    """The subscribers of one engine.

    Attributes:
        runs: subscribers that take a whole run; all others get its messages as single arrivals.
    """

    arrivals: dict[int, OnArrival] = field(default_factory=dict)
    runs: dict[int, OnRun] = field(default_factory=dict)

    def hand_on(self, frame: Arrival | Run, loop: asyncio.AbstractEventLoop) -> None:
        """Give a frame to its subscriber, if the subscription still exists."""
        if isinstance(frame, Arrival):
            _give(self.arrivals, frame, loop)
        elif frame.sid in self.runs:
            _give(self.runs, frame, loop)
        else:
            for arrival in frame.arrivals():
                _give(self.arrivals, arrival, loop)


def _give(routes: Mapping[int, Callable[[Any], None]], frame: Arrival | Run, loop: asyncio.AbstractEventLoop) -> None:
    to = routes.get(frame.sid)
    if to is None:
        return
    try:
        to(frame)
    except Exception as error:  # noqa: BLE001  # a faulty callback must cost neither the burst nor the link
        loop.call_exception_handler({"message": "NATS subscriber failed", "exception": error})
