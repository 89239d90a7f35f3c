"""One replay: a range of a stream, filtered, brought to one target, stopped and gone on with at any event.

The range is fixed at the start, since a replay to a subscriber grows the stream that it reads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

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
from headrace_cli.access.stream_reader import Reader, Stored
from headrace_cli.events.filters import EventFilter
from headrace_cli.events.send import Pace
from headrace_cli.replays import message
from headrace_cli.view.progress import Progress

PUBLISH_SECONDS = 10.0
POST = timedelta(seconds=60)
ANSWER_BYTES = 4096
# Of an address that does not answer, before the replay stops there.
TRIES = 4
FIRST_PAUSE = 0.5
SAVE_EVERY = 100

Bring = Callable[[Stored, str], Awaitable[None]]


@dataclass(slots=True)
class Position:
    """How far a replay is, and of what: all that it takes to go on with it.

    Attributes:
        run: names it; the same again, and nothing is stored twice within the duplicate window.
        next, last: the sequences that are still to be looked at.
        target: whom it is for, in words.
    """

    run: str
    stream: str
    target: str
    next: int
    last: int
    replayed: int = 0

    @property
    def over(self) -> bool:
        return self.next > self.last


def load(path: Path) -> Position | None:
    """What a checkpoint file says; None without one.

    Raises:
        Misconfigured: it is none.
    """
    try:
        return Position(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise Misconfigured(
            f"--checkpoint {path} is no checkpoint of a replay: {error}", field="--checkpoint"
        ) from None


def save(path: Path, position: Position) -> None:
    """Replace the checkpoint file.

    Raises:
        Misconfigured: it can't be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(json.dumps(asdict(position)))
        beside.replace(path)
    except OSError as error:
        problem = f"--checkpoint {path} can't be written: {error.strerror or error}"
        raise Misconfigured(problem, field="--checkpoint") from error


def to_consumer(session: Session, consumer: str, subject: str = "") -> Bring:
    """To one subscriber: through its stream, marked for its consumer, with all that a delivery has.

    Args:
        subject: to publish on; the one that each event lies on by default.
    """

    async def bring(stored: Stored, run: str) -> None:
        await _publish(session, message.to_consumer(stored, run, consumer, subject))

    return bring


def to_channel(session: Session, namespace: str, name: str) -> Bring:
    """To a channel, for all its Subscriptions."""
    subject = names.channel(namespace, name).subject

    async def bring(stored: Stored, run: str) -> None:
        await _publish(session, message.to_subject(stored, run, subject))

    return bring


def to_uri(client: HttpClient, uri: str) -> Bring:
    """To an address, by one POST that is tried again a few times."""
    to = Destination(uri)

    async def bring(stored: Stored, _: str) -> None:
        sent = http_codec.to_http(stored.event)
        headers = sent.headers + nats_codec.passthrough_of(stored.message)
        pause = FIRST_PAUSE
        for tries in range(1, TRIES + 1):
            answer = await client.post(to, headers, sent.body, POST, ANSWER_BYTES, reply=False)
            if answer.status is not None and 200 <= answer.status <= 299:
                # What an earlier try of ours may have stored is no surprise.
                if known_before(answer) and tries == 1:
                    raise Refused(f"{KNOWN_THERE}; it stopped at sequence {stored.sequence}", status=409)
                return
            if not _may_pass(answer) or tries == TRIES:
                raise _failed(uri, answer, stored.sequence)
            await asyncio.sleep(pause)
            pause *= 2

    return bring


async def replay(
    reader: Reader,
    wanted: EventFilter,
    bring: Bring,
    position: Position,
    *,
    pace: Pace,
    checkpoint: Path | None,
    progress: Progress,
) -> None:
    """Bring what is wanted, and keep `position` true at every moment, also when this is cancelled or fails.

    Raises:
        Refused, Unavailable: an event could not be brought; it is at `position.next`.
    """
    try:
        async with aclosing(reader.read(position.next, position.last)) as messages:
            async for stored in messages:
                progress.step(stored.sequence - position.next)
                position.next = stored.sequence
                if not message.is_copy(stored) and wanted.matches(stored.event):
                    await pace.turn()
                    await bring(stored, position.run)
                    position.replayed += 1
                    if checkpoint is not None and position.replayed % SAVE_EVERY == 0:
                        save(checkpoint, position)
                progress.step(1, f"{position.replayed} replayed")
                position.next = stored.sequence + 1
        position.next = position.last + 1
    finally:
        if checkpoint is not None:
            _leave(checkpoint, position)


def _leave(checkpoint: Path, position: Position) -> None:
    """At the end: nothing to go on with, or how."""
    if position.over:
        checkpoint.unlink(missing_ok=True)
    else:
        save(checkpoint, position)


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
