"""The parked events of one aside stream: list, show, replay and discard them.

These are the effects for `headrace.core.delivery.parked`; the CLI calls them. A replayed event is stored, or accepted
by the URI, before its parked copy is deleted: a crash in between keeps the copy, and costs a duplicate at most
(ADR 014).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace.core import names, subject_pattern
from headrace.core.delivery import delivery, parked
from headrace.core.delivery import subscriber as subscribers
from headrace.core.delivery.parked import Parked, ParkedFilter
from headrace.core.delivery.subscriber import Destination, Subscriber, SubscriberState
from headrace.core.errors import InvalidSpec, Refused
from headrace.core.event import http_codec
from headrace.core.event.nats_codec import NatsMessage, encoded
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats.api_error import ApiError
from headrace.core.nats.jetstream import Message, PubAck
from headrace.core.nats.stored_message import StoredMessage, moment, read_stored
from headrace.core.nats.stream import captures
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.jetstream.scan import scan
from headrace.io.nats.client import Client

PAGE = 50
PUBLISH_SECONDS = 5.0

Post = Callable[[Destination, Headers, bytes, timedelta], Awaitable[HttpAnswer]]
"""One POST, as `headrace.forward` makes it; it returns every outcome as an answer."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some parked events, without their data; `next` is the `after` of the next page, None at the end."""

    events: tuple[Parked, ...]
    next: int | None


class ParkedEvents:
    """The events that are parked in one aside stream. All methods raise Unavailable when NATS is away."""

    def __init__(self, client: Client, api: JetStreamApi, aside: str) -> None:
        self._client = client
        self._api = api
        self._aside = aside
        self._jetstream = JetStream(client, api)

    async def page(self, wanted: ParkedFilter | None = None, *, after: int = 0, limit: int = PAGE) -> Page:
        """The first `limit` wanted events beyond position `after`, oldest first."""
        found: list[Parked] = []
        async with aclosing(self._all(wanted or ParkedFilter(), after)) as events:
            async for event in events:
                if len(found) == limit:
                    return Page(tuple(found), found[-1].position)
                found.append(event)
        return Page(tuple(found), None)

    async def counts(self, wanted: ParkedFilter | None = None) -> dict[str, int]:
        """The number of wanted events of each Subscription (`namespace/name`)."""
        async with aclosing(self._all(wanted or ParkedFilter(), 0)) as events:
            return dict(Counter([event.subscription async for event in events]))

    async def show(self, position: int) -> Parked:
        """One event with its data.

        Raises:
            Refused: 404, nothing is parked there.
        """
        stored = await self._stored(position)
        found = None if stored is None else _parked(read_stored(stored["message"]))
        if found is None:
            raise Refused(
                f"nothing is parked at {position} in {self._aside}: `deadletter list` shows what is", status=404
            )
        return found

    async def replay_to_subscriber(self, position: int, run: str) -> PubAck:
        """Store it in its stream again, for the one subscriber that did not take it; then delete the parked copy.

        `forward` delivers it like any other event: with a fresh budget, and it is parked again when that is exhausted.

        Args:
            run: names this replay; a repetition with the same run after a failure stores nothing twice.

        Raises:
            Refused: 404 nothing is parked there; 409 its consumer does not exist any more or gets no deliveries; or
                as for a publish. The event then stays parked.
        """
        event = await self.show(position)
        consumer, channel = await self._consumer(event)
        # A stream with a transform listens on other subjects than it stores under.
        moved = channel if await self._moves(event.stream) else ""
        return await self._move(event, parked.replay_for(event, run, consumer, moved))

    async def replay_to_channel(self, position: int, run: str, namespace: str, name: str) -> PubAck:
        """Store it in another channel, for all its subscribers; then delete the parked copy.

        Raises:
            InvalidSpec: no channel can have that name.
            Refused: 404 nothing is parked there, or the channel does not exist; or as for a publish.
        """
        event = await self.show(position)
        return await self._move(event, parked.replay(event, run, names.channel(namespace, name).subject))

    async def replay_to_uri(self, position: int, to: Destination, post: Post, timeout: timedelta) -> HttpAnswer:
        """POST it once; on a 2xx delete the parked copy.

        Raises:
            Refused: 404 nothing is parked there; 409 the address is a channel and says that it has the event already.
        """
        found = await self.show(position)
        sent = http_codec.to_http(found.event)
        answer = await post(to, sent.headers + found.passing, sent.body, timeout)
        if answer.status is not None and 200 <= answer.status <= 299:
            if delivery.known_before(answer):
                raise Refused(parked.KNOWN_THERE, status=409)
            await self.discard(position)
        return answer

    async def discard(self, position: int) -> bool:
        """Delete it; False when it was gone already."""
        try:
            await self._api.call(f"STREAM.MSG.DELETE.{self._aside}", {"seq": position, "no_erase": True})
        except ApiError:
            # The error's number gives no reason: 10057 stands for any deletion that failed.
            if await self._stored(position) is None:
                return False
            raise
        return True

    async def _stored(self, position: int) -> dict[str, Any] | None:
        return await self._api.find(f"STREAM.MSG.GET.{self._aside}", {"seq": position})

    async def _all(self, wanted: ParkedFilter, after: int) -> AsyncGenerator[Parked]:
        start: dict[str, Any] = {}
        if after:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
        elif wanted.since is not None:
            start = {"deliver_policy": "by_start_time", "opt_start_time": wanted.since.isoformat()}
        messages = scan(self._client, self._api, self._aside, names.parked_subjects(), start=start, headers_only=True)
        async with aclosing(messages):
            async for message in messages:
                event = _listed(message)
                if event is not None and wanted.matches(event):
                    yield event

    async def _move(self, event: Parked, message: NatsMessage) -> PubAck:
        ack = await self._jetstream.publish(encoded(message), PUBLISH_SECONDS)
        await self.discard(event.position)
        if ack.new:
            await self._jetstream.hint(names.wake_subject(ack.stream))
        return ack

    async def _moves(self, stream: str) -> bool:
        info = await self._api.find(f"STREAM.INFO.{stream}")
        return info is not None and bool(info["config"].get("subject_transform"))

    async def _consumer(self, event: Parked) -> tuple[str, str]:
        """The consumer that serves the event's Subscription now: the one that parked it, or one made since.

        Returns:
            Its name, and the subject of its channel.
        """
        info = await self._api.find(f"CONSUMER.INFO.{event.stream}.{event.consumer}")
        if info is not None and (ours := _serves(info, event)) is not None:
            return event.consumer, ours.names.subject
        async for info in self._api.consumers(event.stream):
            if (ours := _serves(info, event)) is not None:
                return str(info["name"]), ours.names.subject
        raise Refused(
            f"no consumer of {event.stream} delivers {event.subject} to {event.subscription} now: mend its "
            "Subscription, or replay to another channel or URI",
            status=409,
        )


def _serves(info: dict[str, Any], event: Parked) -> Subscriber | None:
    """The subscriber of a consumer, if it is the event's Subscription and the consumer's filter lets the event pass."""
    config = info["config"]
    ours: Subscriber | None = None
    with suppress(InvalidSpec):
        ours = subscribers.from_metadata(config.get("metadata"))
    if ours is None or ours.state is not SubscriberState.READY:
        return None
    sees = captures({"subjects": subject_pattern.filters(config)}, event.subject)
    return ours if sees and ours.full_name == event.subscription else None


def _listed(message: Message) -> Parked | None:
    size = message.headers.get("nats-msg-size", "")
    return parked.parse(
        message.sequence,
        moment(message.timestamp_ns),
        message.headers,
        message.data,
        int(size) if size.isdecimal() else 0,
    )


def _parked(stored: StoredMessage) -> Parked | None:
    return parked.parse(stored.sequence, stored.time, stored.headers, stored.data, len(stored.data))
