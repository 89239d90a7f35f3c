"""What a client says of a delivered message: ack, again, later, not yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.simulation.model.refusals import Unmodelled

if TYPE_CHECKING:
    from tests.simulation.model.consumer import Consumer


def take(consumer: Consumer, subject: str, reply: str, data: bytes) -> bool:
    """Settle; True: who asked for it is to be told so.

    Args:
        subject: `$JS.ACK.<stream>.<consumer>.<count>.<sequence>.<delivery>.<time>.<pending>`.
        reply: of an ack that is to be confirmed.
    """
    tokens = subject.split(".")
    sequence, delivery = int(tokens[5]), int(tokens[6])
    consumer.idleness.used()
    if data in (b"", b"+ACK", b"+OK"):
        return _ack(consumer, sequence, delivery)
    if data.startswith(b"-NAK"):
        _again(consumer, sequence, delivery, data[4:].strip())
    elif data == b"+WPI":
        _not_yet(consumer, sequence)
    else:
        raise Unmodelled(f"the ack {data!r}")
    return bool(reply)


def _ack(consumer: Consumer, sequence: int, delivery: int) -> bool:
    # A consumer that is older than its stream, after a crash, does not know that it has delivered this: no answer.
    if sequence >= consumer.next_sequence:
        return False
    consumer.settle(sequence, delivery)
    consumer.stream.settled(sequence)
    return True


def _again(consumer: Consumer, sequence: int, delivery: int, rest: bytes) -> None:
    unsettled = consumer.unsettled
    if not consumer.floor_delivery < delivery < consumer.next_delivery or sequence not in unsettled.pending:
        return
    if rest:
        # The ack wait runs from a moment that makes it end after the delay.
        now, delay = consumer.stream.server.now(), int(json.loads(rest)["delay"])
        unsettled.unqueue(sequence)
        one = unsettled.pending[sequence]
        one.time = now - consumer.config["ack_wait"] + delay
        _save(consumer, sequence, one.delivery, one.time)
        if unsettled.watched:
            unsettled.watch(10_000_000)
        return
    if sequence not in unsettled.queue:
        unsettled.again([sequence])
    consumer.signal()


def _not_yet(consumer: Consumer, sequence: int) -> None:
    one = consumer.pending.get(sequence)
    if one is not None:
        one.time = consumer.stream.server.now()
        _save(consumer, sequence, one.delivery, one.time)


def _save(consumer: Consumer, sequence: int, delivery: int, time: int) -> None:
    consumer.saved.delivered(delivery, sequence, 1, time, acks=True, most=-1)
    consumer.note()
