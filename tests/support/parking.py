"""Parking events on a real server, and looking at what is parked with the library."""

from __future__ import annotations

from headrace.io.api import JetStreamApi
from headrace.io.aside import Page, ParkedEvents
from headrace.io.client import Client
from tests.support.streams import Channel, Lane


def shelf(client: Client, channel: Channel) -> ParkedEvents:
    return ParkedEvents(client, JetStreamApi(client), channel.aside)


async def park(lane: Lane, *ids: str) -> None:
    """Events that the lane's subscriber refuses for good; without ids, those that wait in the stream."""
    await lane.store(*ids)
    while (await lane.lease(linger=0.05))["parked"]:
        pass


def ids(page: Page) -> list[str]:
    return [one.event.id for one in page.events]
