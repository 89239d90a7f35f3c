"""One replay: a range of a stream, filtered, brought to one target, stopped and gone on with at any event.

The range is fixed at the start, since a replay to a subscriber grows the stream that it reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from headrace.core import names
from headrace.core.delivery.delivery import known_before
from headrace.core.delivery.parked import KNOWN_THERE
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.nats_codec import NatsMessage, encoded
from headrace.core.http import HttpAnswer
from headrace.io.http import HttpClient
from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import MessageReader, StreamMessage
from headrace_cli.catalog.channels import CatalogChannel, channel
from headrace_cli.catalog.names import NamespacedName
from headrace_cli.catalog.subscriptions import subscriptions, the_one
from headrace_cli.events.filters import EventFilter
from headrace_cli.events.send import SendRate
from headrace_cli.replays import message
from headrace_cli.replays.position import ReplayPosition, save

PUBLISH_SECONDS = 10.0
POST = timedelta(seconds=60)
ANSWER_BYTES = 4096
# POSTs to an address that does not answer, before the replay stops there.
TRIES = 4
FIRST_PAUSE = 0.5
SAVE_EVERY = 100

Bring = Callable[[StreamMessage, str], Awaitable[None]]


class ReplayTarget(NamedTuple):
    """The function that brings an event to the receiver of a replay, and the receiver in words."""

    bring: Bring
    words: str


async def to_subscription(session: Session, source: CatalogChannel, name: str) -> ReplayTarget:
    """One Subscription of the channel: events go through its stream, marked for its consumer, as ordinary deliveries.

    Raises:
        Refused: 404, there is no such Subscription; 409, no event is delivered to it now.
    """
    one = the_one(await subscriptions(session.admin, source), name, source.namespace)
    if one.state not in ("ready", "paused"):
        raise Refused(f"Subscription {one.ref} is {one.state}: nothing is delivered to it now", status=409)
    # A stream with a transform stores under other subjects than those that it captures.
    subject = source.subject if source.transform else ""

    async def bring(stored: StreamMessage, run: str) -> None:
        await _publish(session, message.to_consumer(stored, run, one.consumer, subject))

    return ReplayTarget(bring, f"Subscription {one.ref}")


async def to_channel(
    session: Session, source: CatalogChannel, wanted: NamespacedName, *, may_be_same: bool
) -> ReplayTarget:
    """A channel, for all its Subscriptions.

    Raises:
        Refused: 404, there is no such channel. Misconfigured: it is the replayed channel itself, which is not allowed.
    """
    to = await channel(session.api, wanted)
    if to.ref == source.ref and not may_be_same:
        problem = f"{to.ref} is where they are: all its Subscriptions would get them again"
        raise Misconfigured(f"{problem}; add --to-same-channel if that is meant", field="--to-channel")

    async def bring(stored: StreamMessage, run: str) -> None:
        await _publish(session, message.to_subject(stored, run, to.subject))

    return ReplayTarget(bring, f"channel {to.ref}")


@asynccontextmanager
async def to_uri(uri: str) -> AsyncIterator[ReplayTarget]:
    """An address as the receiver, for as long as the block lasts."""
    client = HttpClient()
    try:
        yield ReplayTarget(_to_uri(client, uri), uri)
    finally:
        await client.close()


async def replay(
    reader: MessageReader,
    wanted: EventFilter,
    bring: Bring,
    position: ReplayPosition,
    *,
    pace: SendRate,
    checkpoint: Path | None,
    step: Callable[[int, str], None],
) -> None:
    """Bring the wanted events, and keep `position` true at every moment, also when the replay is cancelled or fails.

    Args:
        step: called with how many more sequences were looked at, and with the replay's result so far, in words.

    Raises:
        Refused, Unavailable: an event could not be brought; it is at `position.next`.
    """
    try:
        async with aclosing(reader.messages(position.next, position.last)) as messages:
            async for stored in messages:
                step(stored.sequence - position.next, "")
                position.next = stored.sequence
                if not message.is_copy(stored) and wanted.matches(stored.event):
                    await pace.turn()
                    await bring(stored, position.run)
                    position.replayed += 1
                    if checkpoint is not None and position.replayed % SAVE_EVERY == 0:
                        save(checkpoint, position)
                step(1, f"{position.replayed} replayed")
                position.next = stored.sequence + 1
        position.next = position.last + 1
    finally:
        if checkpoint is not None:
            _leave(checkpoint, position)


def _leave(checkpoint: Path, position: ReplayPosition) -> None:
    """Delete the checkpoint of a replay that is over; else write it, to go on with."""
    if position.over:
        checkpoint.unlink(missing_ok=True)
    else:
        save(checkpoint, position)


def _to_uri(client: HttpClient, uri: str) -> Bring:
    """The function that brings an event by a POST, with a few tries."""
    to = Destination(uri)

    async def bring(stored: StreamMessage, _: str) -> None:
        sent = http_codec.to_http(stored.event)
        headers = sent.headers + nats_codec.passthrough_of(stored.message)
        pause = FIRST_PAUSE
        for tries in range(1, TRIES + 1):
            answer = await client.post(to, headers, sent.body, POST, ANSWER_BYTES, reply=False)
            if answer.status is not None and 200 <= answer.status <= 299:
                # After the first try, an event that is there already may be our own.
                if known_before(answer) and tries == 1:
                    raise Refused(f"{KNOWN_THERE}; it stopped at sequence {stored.sequence}", status=409)
                return
            if not _may_pass(answer) or tries == TRIES:
                raise _failed(uri, answer, stored.sequence)
            await asyncio.sleep(pause)
            pause *= 2

    return bring


async def _publish(session: Session, again: NatsMessage) -> None:
    ack = await session.jetstream.publish(encoded(again), PUBLISH_SECONDS)
    if ack.new:
        with suppress(HeadraceError):
            await session.jetstream.hint(names.wake_subject(ack.stream))


def _may_pass(answer: HttpAnswer) -> bool:
    return answer.status is None or answer.status in (404, 408, 409, 429) or answer.status >= 500


def _failed(uri: str, answer: HttpAnswer, sequence: int) -> HeadraceError:
    if answer.status is None:
        return Unavailable(f"sequence {sequence}: {uri} does not answer: {answer.error}")
    body = answer.body[:500].decode(errors="replace")
    return Refused(f"sequence {sequence}: {uri} answered {answer.status}: {body}".strip(": "), status=answer.status)
