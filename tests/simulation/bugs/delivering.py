"""Bugs of `forward`, between a pulled event and its settling."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from headrace.core.delivery import delivery
from headrace.core.delivery.byte_pool import Share
from headrace.core.delivery.delivery import Ack, Nak
from headrace.core.delivery.lease import Outcome
from headrace.core.delivery.stage_record import Stage
from headrace.core.delivery.subscriber import DeliveryPolicy
from headrace.core.nats import jetstream
from headrace.forward import lease as pulling
from headrace.forward import one_event, short_way
from headrace.host import leasing
from headrace.io.jetstream.keepalive import KeepAlive
from headrace.io.jetstream.pull import PullInbox
from tests.simulation.bugs.planting import bug, nothing

_D: Any = one_event._Delivery
_RUN: Any = pulling._Run


@bug
def ack_before_post() -> None:
    """The short way acks an event when it is sent, and not when it is answered."""
    begin = short_way.ShortWay.begin

    def early(self: Any, message: Any) -> Any:
        handover = begin(self, message)
        if handover is not None:
            self.short.settle(message, jetstream.ACK)
        return handover

    short_way.ShortWay.begin = early


@bug
def ack_before_parked() -> None:
    """The ack goes out before the parked copy is stored."""

    async def park(self: Any, record: Any, reason: str) -> None:
        await self._ack()
        await self._keep_aside(record, reason)
        self._report(Outcome.PARKED, reason)

    _D._park = park


@bug
def acked_though_not_parked() -> None:
    """An event that the aside stream refuses is acked all the same."""

    async def stay(self: Any, _record: Any) -> None:
        await self._ack()

    _D._stay = stay


@bug
def no_keep_alive() -> None:
    """Nothing keeps an event in a subscriber's hands from being redelivered."""
    KeepAlive.hold = nothing


@bug
def pull_not_sent_again() -> None:
    """A pull that was lost with its connection, or without an answer, counts as open."""
    PullInbox._on_disconnect = PullInbox._on_silence = nothing


@bug
def one_attempt_more() -> None:
    """The budget of each stage is one too large."""
    _budget(+1)


@bug
def one_attempt_fewer() -> None:
    """The budget of each stage is one too small."""
    _budget(-1)


def _budget(more: int) -> None:
    decide = delivery.decide

    def other(record: Any, answer: Any, subscriber: Any) -> Any:
        policy = dataclasses.replace(subscriber.policy, retry=max(0, subscriber.policy.retry + more))
        return decide(record, answer, dataclasses.replace(subscriber, policy=policy))

    delivery.decide = other


@bug
def final_answers_are_tried_again() -> None:
    """An answer of 400 is tried again."""
    delivery.retryable = lambda status: status is None or status >= 400


@bug
def busy_answers_are_final() -> None:
    """An answer of 429 ends the stage."""
    before = delivery.retryable
    delivery.retryable = lambda status: status != 429 and before(status)


@bug
def no_back_off() -> None:
    """Every retry is due at once."""
    DeliveryPolicy.wait = lambda *_: timedelta()


@bug
def retry_after_ignored() -> None:
    """A 503 that asks for a longer wait is not heard."""
    delivery.wait = lambda policy, failures, *_: policy.wait(failures)


@bug
def reply_lost() -> None:
    """An event in the subscriber's answer is not handed on."""
    after: Any = delivery._after_success
    delivery._after_success = lambda record, answer, subscriber: (
        Ack(record) if record.stage is Stage.SUBSCRIBER else after(record, answer, subscriber)
    )


@bug
def stuck_where_it_failed() -> None:
    """An answer with an unforeseen status is retried without end, its budget untouched."""
    decide = delivery.decide

    def endless(record: Any, answer: Any, subscriber: Any) -> Any:
        if answer.status == 404:
            return Nak(timedelta(seconds=1), record)
        return decide(record, answer, subscriber)

    delivery.decide = endless


@bug
def bytes_never_come_free() -> None:
    """The bytes of a settled event still count as in hand."""
    Share.settled = nothing


@bug
def a_drain_drops_what_is_in_hand() -> None:
    """A process that is told to end waits for no subscriber."""
    drain = leasing.Leasing.drain
    finish = _RUN.finish
    ending: set[int] = set()

    def drop(self: Any) -> None:
        ending.update(id(stop) for stop in self._open)
        drain(self)

    async def at_once(self: Any) -> None:
        if id(self.stop) in ending:
            for task in list(self.tasks):
                task.cancel()
            self.tasks.clear()
        await finish(self)

    leasing.Leasing.drain = drop
    _RUN.finish = at_once
