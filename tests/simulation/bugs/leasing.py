"""Bugs of order, of leases, and of the scaler that opens them."""

from __future__ import annotations

import math
from typing import Any

from headrace.core.delivery.order import Order
from headrace.core.delivery.subscriber import Subscriber
from headrace.forward import lease as pulling
from headrace.forward.line import Line
from headrace_operator.scaling import lag, scaler
from headrace_operator.scaling.sweep import Sweep
from tests.simulation.bugs.planting import bug, nothing

_RUN: Any = pulling._Run


@bug
def more_leases_than_allowed() -> None:
    """One lease more than `max_scale` is opened when there is lag for it."""

    def wanted(outlook: Any, now: float) -> int:
        return 0 if now < outlook.not_before else math.ceil(lag.lag(outlook, now) / outlook.threshold)

    def short(outlook: Any, now: float) -> int:
        return min(wanted(outlook, now), outlook.max_scale + 1) - (outlook.open - outlook.late)

    lag.wanted, lag.short = wanted, short


@bug
def two_leases_where_there_is_order() -> None:
    """An ordered subscriber gets as many leases as any other."""
    Subscriber.most_leases = property(lambda self: max(2, self.max_scale))


@bug
def order_begins_at_once() -> None:
    """A lease on a by-key consumer does not wait for what an earlier one has left."""
    arrived = Order.arrived

    def at_once(self: Any, *arguments: Any) -> Any:
        self.open = True
        return arrived(self, *arguments)

    Order.arrived = at_once


@bug
def a_broken_pull_loses_its_place() -> None:
    """A by-key lease goes on after a broken connection as if nothing had been on the wire."""
    Line.broke = nothing


@bug
def a_retry_lets_its_key_pass() -> None:
    """The next event of a key goes while an earlier one waits for its back-off."""

    def away(self: Any, sequence: int, _due: float, now: float) -> Any:
        return self.settled(sequence, now)

    Order.away = away


@bug
def never_back_to_zero() -> None:
    """There is always one lease open."""
    before = lag.lag
    lag.lag = lambda outlook, now: max(1, before(outlook, now))


@bug
def hints_lost_and_no_sweep() -> None:
    """The scaler hears no hints, and sweeps no more after its start."""
    scaler.Scaler._on_hint = nothing
    once, counted = Sweep.once, [0]

    async def seldom(self: Any) -> bool:
        counted[0] += 1
        return await once(self) if counted[0] % 20 == 1 else True

    Sweep.once = seldom


@bug
def leases_of_a_minute() -> None:
    """A lease does not end when its time is up."""
    _RUN._left = lambda self: self.began + 60.0 - self.effects.monotonic()
    _RUN._idle = lambda *_: False
