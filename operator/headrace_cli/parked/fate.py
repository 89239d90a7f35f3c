"""What becomes of parked events: each is replayed or discarded, one after the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TextIO

from headrace.core.delivery.parked import Parked
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.http import Headers, HttpAnswer
from headrace.io.http import HttpClient
from headrace_cli.catalog.names import NamespacedName
from headrace_cli.events.send import SendRate
from headrace_cli.parked import items
from headrace_cli.parked.selection import Selection
from headrace_cli.parked.shelf import Shelf
from headrace_cli.view import event as event_view

# After so many failures in a row that only waiting could cure, the other events would fare no better.
GIVE_UP = 5
POST = timedelta(seconds=60)
ANSWER_BYTES = 4096

Work = Callable[[Parked], Awaitable[object]]


async def settle_each(
    shelf: Shelf, selection: Selection, work: Work | None, per_second: float | None = None
) -> AsyncGenerator[tuple[int, HeadraceError | None]]:
    """Do the work with each selected event; gives its position, and the reason if it stays.

    Args:
        work: None for a dry run.

    Raises:
        Unavailable: several events in a row failed so, and were given before.
    """
    pace, in_a_row = SendRate(per_second), 0
    async with aclosing(shelf.each(selection)) as events:
        async for one in events:
            failure: HeadraceError | None = None
            if work is not None:
                await pace.turn()
                try:
                    await work(one)
                except HeadraceError as error:
                    failure = error
            in_a_row = in_a_row + 1 if failure is not None else 0
            yield one.position, failure
            if isinstance(failure, Unavailable) and in_a_row >= GIVE_UP:
                raise failure


def to_subscriber(shelf: Shelf, run: str) -> Work:
    """The work that delivers an event to the one subscriber that did not take it."""
    return lambda one: shelf.events.replay_to_subscriber(one.position, run)


def to_channel(shelf: Shelf, run: str, to: NamespacedName) -> Work:
    """The work that publishes an event to a channel, for all its Subscriptions."""
    return lambda one: shelf.events.replay_to_channel(one.position, run, to.namespace, to.name)


@asynccontextmanager
async def to_uri(shelf: Shelf, uri: str) -> AsyncIterator[Work]:
    """The work that sends an event to an address by one POST, for as long as the block lasts."""
    client, destination = HttpClient(), Destination(uri)

    async def post(to: Destination, headers: Headers, body: bytes, timeout: timedelta) -> HttpAnswer:
        return await client.post(to, headers, body, timeout, ANSWER_BYTES, reply=False)

    async def bring(one: Parked) -> None:
        answer = await shelf.events.replay_to_uri(one.position, destination, post, POST)
        if answer.status is None or not 200 <= answer.status <= 299:
            raise Unavailable(f"{uri}: {answer.error or f'it answered {answer.status}'}")

    try:
        yield bring
    finally:
        await client.close()


def discard(shelf: Shelf, saved: TextIO | None) -> Work:
    """The work that deletes an event for good.

    Args:
        saved: takes the event before, as a line that `send -f` reads.
    """

    async def work(one: Parked) -> None:
        if saved is not None:
            whole = await shelf.events.show(one.position)
            about = items.item(whole, str(shelf.channel.ref), datetime.now(UTC))
            saved.write(f"{event_view.line(whole.event, **about)}\n")
            saved.flush()
        await shelf.events.discard(one.position)

    return work
