"""A load that outgrows its lease: further ones are opened as soon as it tells so, long before the next sweep."""

from __future__ import annotations

import time

from headrace.io.nats.client import Client
from tests.support.functions.forward_pods import IN_FLIGHT, scaled, stored
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.streams import Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.scaled"]

MOST, SWEEP = 4, 60.0


async def test_a_lease_tells_of_what_waits_behind_it_and_others_are_opened_beside_it(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Say(delay=1.0))
    lane = await own_nats.serve(forwards[0], subscriber=place.uri, lagThreshold=100, maxScale=MOST)
    await lane.store("first")
    async with scaled(connection, lane, forwards, SWEEP) as pods:
        await until("a lease is open", lambda: bool(pods.requests))
        began = time.monotonic()
        await stored(own_nats, lane, 20 * IN_FLIGHT)
        await until("as many leases are open as the lag is worth", lambda: pods.most == MOST)
        took = time.monotonic() - began
        await place.wait(IN_FLIGHT)

    print(f"{MOST} leases {took:.1f} s after the events were stored")
    # The first is open for longer, so it was no answer that told, and no sweep.
    assert took < pods.requests[0].seconds / 2
