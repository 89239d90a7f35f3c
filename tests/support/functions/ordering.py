"""Subscribers that want their events in order: their consumers, their events, and a check that the order was kept."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from tests.support.http.subscriber import Place, Received
from tests.support.nats.streams import NANOSECONDS, Channel, Lane, Nats, Serving, binary_event

ORDERED: dict[str, Any] = {"max_ack_pending": 1}
BY_KEY: dict[str, Any] = {
    "priority_groups": ["headrace"],
    "priority_policy": "pinned_client",
    "priority_timeout": 5 * NANOSECONDS,
}


async def serve_by_key(nats: Nats, function: Serving, channel: Channel | None = None, **subscriber: Any) -> Lane:
    """A channel with one by-key consumer."""
    said = {"deliveryOrder": "by-key", "orderKey": "partitionkey", **subscriber}
    return await nats.serve(function, channel, BY_KEY, **said)


async def serve_ordered(nats: Nats, function: Serving, **subscriber: Any) -> Lane:
    """A channel with one ordered consumer."""
    return await nats.serve(function, None, ORDERED, deliveryOrder="ordered", **subscriber)


async def store_keyed(lane: Lane, *ids: str, data: bytes = b'{"n": 1}') -> None:
    """Events with ids like `a1`, whose key is the letter; those that begin with `-` have no key."""
    for id in ids:
        key = {} if id.startswith("-") else {"partitionkey": id[0]}
        await lane.nats.store(lane.channel.subject, data, binary_event(id, **key))


def numbers(received: Iterable[Received]) -> dict[str, list[int]]:
    """What came of each key, in its order: the numbers in the ids."""
    found: dict[str, list[int]] = defaultdict(list)
    for request in received:
        found[request.event["id"][0]].append(int(request.event["id"][1:]))
    return found


def out_of_order(place: Place) -> dict[str, list[int]]:
    """The keys of which an event came after a later one, repetitions of one event allowed."""
    return {key: came for key, came in numbers(place.received).items() if came != sorted(came)}


@asynccontextmanager
async def leased_for_ever(*lanes: Lane) -> AsyncIterator[None]:
    """One lease after the other on each, as two openers would that know nothing of each other."""

    async def go_on(lane: Lane) -> None:
        while True:
            with suppress(aiohttp.ClientError, AssertionError):
                await lane.lease(seconds=2, linger=0.5, max_in_flight=8)
            await asyncio.sleep(0.05)

    tasks = [asyncio.create_task(go_on(lane)) for lane in lanes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
