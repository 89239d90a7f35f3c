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
    """Whether a message is itself a replay for one consumer, whose original was in the stream, too."""
    return ONLY.lower() in stored.headers


def to_consumer(stored: StreamMessage, run: str, consumer: str, subject: str = "") -> NatsMessage:
    """The message for one consumer of its own stream, and for no other.

    Args:
        subject: the subject to publish on, if it is not the stored one.
    """
    again = _again(stored, run, subject or stored.subject)
    headers = {**again.headers, ONLY: consumer, EXPECTED_STREAM: stored.stream}
    return NatsMessage(again.subject, headers, again.data)


def to_subject(stored: StreamMessage, run: str, subject: str) -> NatsMessage:
    """The message for all consumers of a channel's subject."""
    return _again(stored, run, subject)


def _again(stored: StreamMessage, run: str, subject: str) -> NatsMessage:
    event = stored.event
    if event.type == FOREIGN_TYPE and "ce-type" not in stored.headers:
        # The event has its id and source from its place in a stream, and would get others in the new place.
        headers = dict(nats_codec.to_binary(event, subject, nats_codec.passthrough_of(stored.message)).headers)
    else:
        headers = {
            name: value
            for name, value in pairs(stored.headers.block)
            if not name.lower().startswith(_NOT_THE_EVENTS) and can_carry(name, value)
        }
    headers[MSG_ID] = f"{nats_codec.msg_id(event.source, event.id)}:replay:{run}:{stored.sequence}"
    return NatsMessage(subject, headers, stored.data)
