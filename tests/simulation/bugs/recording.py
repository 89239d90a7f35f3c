"""Bugs of `forward` in what it writes down: stage records, parked copies, dead letters, counts."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from headrace.core.channel import position
from headrace.core.delivery import parked, stage_record
from headrace.core.delivery.lease import Outcome
from headrace.core.delivery.stage_record import Stage
from headrace.core.nats import jetstream
from headrace.forward import one_event
from tests.simulation.bugs.planting import bug

_D: Any = one_event._Delivery


@bug
def nak_before_record() -> None:
    """A retry is given back before its stage record is stored."""

    async def try_later(self: Any, delay: timedelta, record: Any) -> None:
        await self._nak(delay)
        await self._remember(record, delay)
        self._report(Outcome.RETRIED, record.last)

    _D._try_later = try_later


@bug
def record_never_stored() -> None:
    """No stage record is stored, so that no budget ever ends."""

    async def remember(_self: Any, _record: Any, _wait: timedelta) -> None:
        return None

    _D._remember = remember


@bug
def record_dropped_before_ack() -> None:
    """The stage record goes before the ack is confirmed."""

    async def ack(self: Any) -> None:
        if self.message.delivered > 1:
            await self.effects.drop(self._stage_subject)
        await self.effects.settle(self.message, jetstream.ACK)

    _D._ack = ack


@bug
def record_left_behind() -> None:
    """The stage record stays when its event is settled."""

    async def ack(self: Any) -> None:
        await self.effects.ack(self.message)

    _D._ack = ack


@bug
def record_of_the_wrong_stage() -> None:
    """Every record says that the subscriber is to be tried, also for the dead letter sink's retries."""
    remember = _D._remember

    async def wrong(self: Any, record: Any, wait: timedelta) -> None:
        await remember(self, dataclasses.replace(record, stage=Stage.SUBSCRIBER), wait)

    _D._remember = wrong


@bug
def due_by_the_wrong_clock() -> None:
    """A due time is believed to the letter, however far ahead its writer's clock is."""
    stage_record.ahead = lambda record, now, *_: 0.0 if record.due is None else record.due - now


@bug
def early_events_go_at_once() -> None:
    """An event that a restarted server brings before it is due is POSTed."""
    _D._ahead = lambda *_: timedelta()


@bug
def dead_letter_counts_as_delivered() -> None:
    """What goes to the dead letter sink is counted as delivered."""

    async def complete(self: Any, _record: Any) -> None:
        await self._ack()
        self._report(Outcome.DELIVERED, "")

    _D._complete = complete


@bug
def dead_letter_tells_500() -> None:
    """Every dead letter tells status 500, whatever was answered."""
    failure = stage_record.StageFailure
    told = failure.extensions
    failure.extensions = lambda self: told(dataclasses.replace(self, code=500))


@bug
def parked_without_reason() -> None:
    """A parked copy does not say why it is parked."""
    copy = parked.parked_message
    parked.parked_message = lambda message, record, _, subscriber, **more: copy(message, record, "", subscriber, **more)


@bug
def a_consumer_stays_ahead() -> None:
    """A consumer that remembers more than its stream, after a loss of power, stays where it is."""
    position.ahead = lambda *_: {}
