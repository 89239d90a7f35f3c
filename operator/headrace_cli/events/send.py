"""The ways of an event into a channel: over HTTP to a receiver, or straight into the stream, as `receive` stores it.

This module knows the order of effects, and the meaning of an answer. `headrace_cli.events.compose` makes the events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from headrace.core import names
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.delivery_claim import DUPLICATE, UNSURE
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import encoded
from headrace.io.http import HttpClient
from headrace_cli.access.session import Session
from headrace_cli.catalog import channels
from headrace_cli.catalog.names import NamespacedName

SECONDS = 10.0
ANSWER_BYTES = 16 * 1024


class Mode(StrEnum):
    BINARY = "binary"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The channel's answer to one event.

    Attributes:
        answer: the place where the event is stored, or the HTTP status; and, where known, whether it was stored before.
    """

    event: Event
    answer: dict[str, Any]

    @property
    def to_json(self) -> dict[str, Any]:
        return {"id": self.event.id, "source": self.event.source, "type": self.event.type, **self.answer}


Send = Callable[[Event], Awaitable[Receipt]]


@asynccontextmanager
async def over_http(url: str, mode: Mode) -> AsyncIterator[Send]:
    """The way to an address that takes events; 2xx is success.

    The function raises Refused for an answer that will be the same next time, Unavailable for any other.
    """
    client = HttpClient()
    to = Destination(url)

    async def send(event: Event) -> Receipt:
        message = http_codec.to_http(event) if mode is Mode.BINARY else http_codec.to_structured(event)
        answer = await client.post(to, message.headers, message.body, timedelta(seconds=SECONDS), ANSWER_BYTES)
        if answer.status is None:
            raise Unavailable(f"{url} does not answer: {answer.error}")
        words = f"{url} answered {answer.status}: {_reason(answer.body)}".strip(": ")
        if answer.status == 429 or answer.status >= 500:
            raise Unavailable(words)
        if not 200 <= answer.status <= 299:
            raise Refused(words, status=answer.status)
        known = answer.header(DUPLICATE)
        return Receipt(
            event, {"status": answer.status, **({"duplicate": known != UNSURE} if known is not None else {})}
        )

    try:
        yield send
    finally:
        await client.close()


def _reason(body: bytes) -> str:
    """The words of an answer: the detail of `application/problem+json`, else its text."""
    text = body[:1000].decode(errors="replace")
    try:
        problem = json.loads(body)
    except ValueError:
        return text
    return str(problem["detail"]) if isinstance(problem, dict) and "detail" in problem else text


@asynccontextmanager
async def over_nats(session: Session, channel: NamespacedName, mode: Mode) -> AsyncIterator[Send]:
    """The way into the channel's stream: the event is stored as `receive` does, with the hint that wakes delivery.

    The function raises as a publish: Refused 404 without such a channel, 413, 507; Unavailable.
    """
    subject = names.channel(channel.namespace, channel.name).subject

    async def send(event: Event) -> Receipt:
        make = nats_codec.to_binary if mode is Mode.BINARY else nats_codec.to_structured
        ack = await session.jetstream.publish(encoded(make(event, subject)), SECONDS)
        if ack.new:
            await session.jetstream.hint(names.wake_subject(ack.stream))
        return Receipt(event, {"stream": ack.stream, "sequence": ack.sequence, "duplicate": not ack.new})

    yield send


@asynccontextmanager
async def to_channel(
    session: Session, channel: NamespacedName, mode: Mode, *, via: str = "auto"
) -> AsyncIterator[Send]:
    """The way to a channel: over HTTP if a receiver is known, else into its stream.

    Args:
        via: `http` or `nats`, if only that one will do.

    Raises:
        Misconfigured: `http` is wanted and no receiver is known. Refused: 404, there is no such channel.
    """
    base = session.place.receive
    if base is None or via == "nats":
        if via == "http":
            raise Misconfigured("--via http needs a receiver: start headrace up, or give its --url", field="--via")
        async with over_nats(session, channel, mode) as send:
            yield send
        return
    try:
        async with over_http(base + names.path(channel.namespace, channel.name), mode) as send:
            yield send
    except Refused as error:
        if error.status == 404:
            # This refusal names the channels that exist; the receiver could only say that this one does not.
            await channels.channel(session.api, channel)
        raise


async def send_each(
    way: AbstractAsyncContextManager[Send], events: Iterable[Event], per_second: float | None
) -> AsyncGenerator[Receipt]:
    """Send one event after the other, and give each when it is taken; raises as the way does."""
    pace = SendRate(per_second)
    async with way as send:
        for event in events:
            await pace.turn()
            yield await send(event)


class SendRate:
    """Lets so many events through each second, evenly; without a rate all of them at once."""

    def __init__(self, per_second: float | None) -> None:
        self._between = 1.0 / per_second if per_second else 0.0
        self._next = 0.0

    async def turn(self) -> None:
        """Return when it is time for the next event."""
        if not self._between:
            return
        loop = asyncio.get_running_loop()
        self._next = max(self._next, loop.time())
        wait, self._next = self._next - loop.time(), self._next + self._between
        await asyncio.sleep(max(0.0, wait))
