"""Parks an event that `forward` will never see again: reads it, its consumer and its stage record; stores them aside.

`headrace.io.jetstream.admin` calls it; `headrace.core` has decided to park the event.
"""

from __future__ import annotations

from typing import Any

from headrace.core.delivery import parked, stage_record
from headrace.core.delivery import subscriber as subscribers
from headrace.core.delivery.delivery import begin
from headrace.core.errors import InvalidSpec, Refused
from headrace.core.event.nats_codec import encoded
from headrace.core.nats.action import ParkForgotten
from headrace.core.nats.jetstream import Message
from headrace.core.nats.stored_message import read_stored
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream

ASK_SECONDS = 5.0


async def park(action: ParkForgotten, api: JetStreamApi, jetstream: JetStream) -> None:
    """Store the parked copy, then delete the records; a repetition stores no second copy.

    Raises:
        Refused: it can't be parked: there is no room, or its consumer does not name its subscriber.
        Unavailable: JetStream does not answer.
    """
    info = await api.find(f"CONSUMER.INFO.{action.stream}.{action.consumer}")
    message = await _message(action, info, api)
    if message is not None and info is not None:
        try:
            subscriber = subscribers.from_metadata(info["config"].get("metadata"))
        except InvalidSpec as error:
            raise Refused(f"consumer {action.consumer} is damaged: {error}", status=409) from error
        if subscriber is None:
            raise Refused(f"consumer {action.consumer} was not made by Headrace", status=409)
        data = await jetstream.last(action.aside, action.record, ASK_SECONDS)
        if data is None:
            # It was settled after all.
            return
        record = stage_record.from_json(data) or begin(subscriber)
        reason = f"{action.reason} {record.last}".strip()
        await jetstream.publish_aside(encoded(parked.parked_message(message, record, reason, subscriber)), ASK_SECONDS)
    await jetstream.forget(action.aside, action.record, ASK_SECONDS)
    await jetstream.forget(action.aside, f"{action.record}.*", ASK_SECONDS)


async def _message(action: ParkForgotten, info: dict[str, Any] | None, api: JetStreamApi) -> Message | None:
    """The event in the stream; None when it was deleted there, so that there is nothing to keep."""
    sequence = int(action.record.rpartition(".")[2])
    found = await api.find(f"STREAM.MSG.GET.{action.stream}", {"seq": sequence})
    if found is None or info is None:
        return None
    stored = read_stored(found["message"])
    place = action.stream, action.consumer
    return Message(stored.subject, stored.headers, stored.data, "", *place, 1, stored.sequence, stored.time_ns)
