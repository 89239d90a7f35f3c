"""Parking events on a real server, and looking at what is parked with the library."""

from __future__ import annotations

from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.aside import Page, ParkedEvents
from headrace.io.nats.client import Client
from tests.support.nats.streams import Channel, Lane


def shelf(client: Client, channel: Channel) -> ParkedEvents:
    return ParkedEvents(client, JetStreamApi(client), channel.aside)


async def park(lane: Lane, *ids: str) -> None:
    """Events that the lane's subscriber refuses for good; without ids, those that wait in the stream."""
    await lane.store(*ids)
    parked = 0
    # On a busy machine a lease that lingers so shortly may see nothing of what waits.
    for _ in range(100):
        found = (await lane.lease(linger=0.05))["parked"]
        parked += found
        if not found and parked >= max(1, len(ids)):
            return
    raise AssertionError(f"{parked} events were parked, not {ids or 'what waits'}")


def ids(page: Page) -> list[str]:
    return [one.event.id for one in page.events]
