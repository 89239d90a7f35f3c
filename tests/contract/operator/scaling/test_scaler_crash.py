"""All `forward` processes are killed with thousands of events waiting: how the scaler finds out that one is back."""

from __future__ import annotations

import asyncio
import time

from headrace.io.nats.client import Client
from tests.support.functions.forward_pods import IN_FLIGHT, scaled, stored
from tests.support.functions.functions import Function
from tests.support.functions.scaling import hint
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.streams import Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.scaled"]

EVENTS, MOST = 2_200, 4
USUAL, SHORT = 20.0, 1.0


async def left(lane: Lane) -> int:
    info = await lane.info()
    return int(info["num_pending"]) + int(info["num_ack_pending"])


async def test_the_first_forward_that_delivers_again_opens_the_way_for_all_leases_at_once(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Say(delay=0.1))
    lane = await own_nats.serve(forwards[0], subscriber=place.uri, lagThreshold=100, maxScale=MOST)
    await stored(own_nats, lane, EVENTS)
    async with scaled(connection, lane, forwards) as pods:
        await place.wait(150)
        pods.kill(*forwards)
        waiting, before = await left(lane), len(pods.requests)
        await asyncio.sleep(1.0)
        ready = await pods.revive(forwards[0])
        await until("no event waits that nobody has had in hands", lambda: pending_is_none(lane))
        caught_up = time.monotonic() - ready
        await until("everything is delivered", lambda: nothing_left(lane))
        all_done = time.monotonic() - ready

    after = pods.requests[before:]
    first = next(request for request in after if not request.failed)
    failed, works = after[: after.index(first)], after[after.index(first) :]
    print(
        f"{waiting} events waited, {len(failed)} leases failed; of the first pod: told of its first event after "
        f"{first.told - ready:.2f} s, caught up after {caught_up:.2f} s, what was in hands after {all_done:.2f} s"
    )
    assert waiting >= 1_900
    assert [request.seconds for request in (*failed, first)] == [SHORT] * (len(failed) + 1)
    # Nobody beside it before it has told, and all others right then, before its end.
    assert [request.seconds for request in works[1:MOST]] == [USUAL] * (MOST - 1)
    assert all(first.told <= request.began < first.ended for request in works[1:MOST])
    assert pods.most == MOST
    assert not any(request.failed for request in works)
    assert len(set(place.ids)) == EVENTS
    # In hands when all were killed.
    assert len(place.ids) - EVENTS <= MOST * IN_FLIGHT


async def test_of_two_forwards_the_one_that_lives_is_tried_at_once_and_what_it_holds_goes_on(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Say(delay=0.1))
    lane = await own_nats.serve(forwards[0], subscriber=place.uri, lagThreshold=100, maxScale=MOST)
    await stored(own_nats, lane, EVENTS)
    async with scaled(connection, lane, forwards) as pods:
        await place.wait(150)
        before = len(pods.requests)
        pods.kill(forwards[1])
        await until("as many leases as before are open", lambda: len(pods.requests) == before + 2)
        after = pods.requests[before:]
        goes_on = [request for request in pods.requests[:before] if not request.failed]

    assert [request.seconds for request in after] == [SHORT, USUAL]
    assert after[0].told <= after[1].began
    # It had not waited for the end of those that go on.
    assert len(goes_on) == 2
    assert all(after[1].began < request.ended for request in goes_on)
    assert pods.most == MOST


async def test_a_trial_that_waits_for_a_slow_subscriber_holds_no_fresh_event_up(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place(Hold(), Say())
    lane = await own_nats.serve(forwards[0], subscriber=place.uri)
    async with scaled(connection, lane, forwards[:1]) as pods:
        pods.kill(forwards[0])
        await lane.store("slow")
        await hint(own_nats, lane.channel)
        await until("a lease has failed", lambda: any(request.failed for request in pods.requests))
        await pods.revive(forwards[0])
        await place.wait(1)
        await asyncio.sleep(2 * SHORT)
        stored_at = time.monotonic()
        await lane.store("fresh")
        await hint(own_nats, lane.channel)
        _, fresh = await place.wait(2)

        # Far sooner than after the time of a usual lease.
        assert fresh.at - stored_at < USUAL / 2
        assert not next(request for request in pods.requests if not request.failed).ended
        place.release()


async def test_where_there_is_an_order_the_lease_after_a_failure_is_as_long_as_any(
    own_nats: Nats, connection: Client, server: Subscriber, forwards: list[Function]
) -> None:
    place = server.place()
    lane = await own_nats.serve(
        forwards[0], subscriber=place.uri, deliveryOrder="ordered", consumer={"max_ack_pending": 1}
    )
    async with scaled(connection, lane, forwards[:1]) as pods:
        pods.kill(forwards[0])
        await lane.store("a", "b")
        await hint(own_nats, lane.channel)
        await until("a lease has failed", lambda: any(request.failed for request in pods.requests))
        await pods.revive(forwards[0])
        await place.wait(2)

    assert {request.seconds for request in pods.requests} == {USUAL}
    assert (pods.most, place.ids) == (1, ["a", "b"])


async def pending_is_none(lane: Lane) -> bool:
    return bool((await lane.info())["num_pending"] == 0)


async def nothing_left(lane: Lane) -> bool:
    return await left(lane) == 0
