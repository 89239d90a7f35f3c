"""The message that brings an event of a stream again: the same event, which the server does not take for a duplicate.

Pure. As `headrace.core.delivery.parked` does it for parked events (ADR 014).
"""

from __future__ import annotations

from headrace.core.delivery.parked import EXPECTED_STREAM, ONLY
from headrace.core.event import nats_codec
from headrace.core.event.nats_codec import FOREIGN_TYPE, MSG_ID, NatsMessage
from headrace.core.nats.nats_wire import can_carry, pairs
from headrace_cli.access.stream_reader import StreamMessage

_NOT_THE_EVENTS = ("nats-", "headrace-")


def is_copy(stored: StreamMessage) -> bool:
    """Whether it is a replay itself, for one consumer: its original was in the stream, too."""
    return ONLY.lower() in stored.headers


def to_consumer(stored: StreamMessage, run: str, consumer: str, subject: str = "") -> NatsMessage:
    """For one consumer of its own stream, and for no other.

    Args:
        subject: to publish it on, where that is not the one that it lies on.
    """
    again = _again(stored, run, subject or stored.subject)
    headers = {**again.headers, ONLY: consumer, EXPECTED_STREAM: stored.stream}
    return NatsMessage(again.subject, headers, again.data)


def to_subject(stored: StreamMessage, run: str, subject: str) -> NatsMessage:
    """For all that a channel's subject is delivered to."""
    return _again(stored, run, subject)


def _again(stored: StreamMessage, run: str, subject: str) -> NatsMessage:
    event = stored.event
    if event.type == FOREIGN_TYPE and "ce-type" not in stored.headers:
        # Its place gave it its identity, and would now give it another.
        headers = dict(nats_codec.to_binary(event, subject, nats_codec.passthrough_of(stored.message)).headers)
    else:
        headers = {
            name: value
            for name, value in pairs(stored.headers.block)
            if not name.lower().startswith(_NOT_THE_EVENTS) and can_carry(name, value)
        }
    headers[MSG_ID] = f"{nats_codec.msg_id(event.source, event.id)}:replay:{run}:{stored.sequence}"
    return NatsMessage(subject, headers, stored.data)
