"""The event in a pulled message, and unforeseen errors in words; neither function ever raises.

`one_event`, `line` and `lease` call it.
"""

from __future__ import annotations

import traceback

from headrace.core.errors import Fault, HeadraceError, InvalidEvent
from headrace.core.event import nats_codec
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.nats.jetstream import Message


def event_in(message: Message) -> Event | InvalidEvent:
    """The event in a message, or its faults; never anything else, whatever the bytes are."""
    stored = NatsMessage(message.subject, message.headers, message.data)
    try:
        return nats_codec.from_nats(stored, stream=message.stream, sequence=message.sequence)
    except InvalidEvent as error:
        return error
    except Exception as error:  # noqa: BLE001  # or the message would be redelivered, and fail here, without end
        return InvalidEvent(Fault("message", f"can't be read: {words(error)}"))


def words(error: BaseException) -> str:
    """An error in words for logs: an unforeseen one by type and place only, since its message may quote event data."""
    if isinstance(error, HeadraceError):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1:]
    return f"unforeseen {type(error).__name__}" + "".join(f" in {place.name}, line {place.lineno}" for place in where)
