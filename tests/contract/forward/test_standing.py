"""A `forward` that pulls without end, where nobody opens leases: the runtime `deployment`."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.delivery.subscriber import METADATA_KEY
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Lane, Nats, metadata
from tests.support.programs.process import DidNotStart
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

DELIVERED_SECONDS = 30.0
"""Enough for a consumer that was looked for in vain, and for a machine that is busy."""


def standing(server: NatsServer, directory: Path, *lanes: Lane) -> Function:
    names = " ".join(f"{lane.channel.stream}/{lane.consumer}" for lane in lanes)
    return Function("forward", server.url, directory, FORWARD_CONSUMERS=names)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


async def settled(lane: Lane) -> None:
    async def is_so() -> bool:
        info = await lane.info()
        return info["num_pending"] == 0 and info["num_ack_pending"] == 0

    await until(f"all of {lane.consumer} is settled", is_so, DELIVERED_SECONDS)


@pytest.fixture
def mortal_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A nats-server that the test may stop."""
    server = NatsServer(tmp_path / "nats").start()
    try:
        yield server
    finally:
        server.kill()


async def test_it_delivers_for_each_of_its_consumers_and_nobody_opens_a_lease(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, forward: Function, tmp_path: Path
) -> None:
    places = subscriber.place(), subscriber.place()
    lanes = [await nats.serve(forward, subscriber=place.uri) for place in places]
    with standing(shared_server, tmp_path, *lanes):
        for lane in lanes:
            await lane.store("a", "b")
        for lane, place in zip(lanes, places, strict=True):
            await place.wait(2, DELIVERED_SECONDS)
            await settled(lane)
        # Not only what was there: one more, at a time when nothing flows.
        await lanes[0].store("c")
        await places[0].wait(3, DELIVERED_SECONDS)

    assert [sorted(place.ids) for place in places] == [["a", "b", "c"], ["a", "b"]]


async def test_a_consumer_that_is_not_there_yet_is_served_once_it_is(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, forward: Function, tmp_path: Path
) -> None:
    channel, place = await nats.make_channel(), subscriber.place()
    missing = Lane(nats, forward, channel, "KN_SUB_LATER")
    with standing(shared_server, tmp_path, missing) as function:
        await until("it says what it lacks", lambda: "KN_SUB_LATER" in function.log, DELIVERED_SECONDS)
        said = {METADATA_KEY: json.dumps(metadata(channel, subscriber=place.uri))}
        body = {"durable_name": "KN_SUB_LATER", "ack_policy": "explicit", "ack_wait": 8 * 10**9, "metadata": said}
        call = {"stream_name": channel.stream, "config": body}
        await nats.call(f"CONSUMER.CREATE.{channel.stream}.KN_SUB_LATER", call)
        await missing.store("a")
        await place.wait(1, DELIVERED_SECONDS)
        await settled(missing)
        assert "delivering again" in function.log


async def test_it_survives_the_loss_of_nats(
    mortal_server: NatsServer, subscriber: Subscriber, forward: Function, tmp_path: Path
) -> None:
    place = subscriber.place()
    async with Nats(mortal_server.url) as nats:
        lane = await nats.serve(forward, subscriber=place.uri)
        await lane.store("a")
        with standing(mortal_server, tmp_path, lane):
            await place.wait(1, DELIVERED_SECONDS)
            await settled(lane)
            mortal_server.kill()
            mortal_server.start()

            async def stored() -> bool:
                try:
                    await lane.store("b")
                except Exception:  # noqa: BLE001  # whatever the client says while its server comes back
                    return False
                return True

            await until("the server is back", stored, DELIVERED_SECONDS)
            await until("the event came", lambda: "b" in place.ids, DELIVERED_SECONDS)


async def test_sigterm_ends_it_once_what_is_in_hand_is_settled(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, forward: Function, tmp_path: Path
) -> None:
    place = subscriber.place(Hold(), Say())
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("a")
    with standing(shared_server, tmp_path, lane) as function:
        await place.wait(1, DELIVERED_SECONDS)
        function.terminate()
        await until("it takes no more connections", lambda: not listens(function.port), DELIVERED_SECONDS)
        await lane.store("b")
        place.release()
        began = time.monotonic()
        assert function.wait() == 0
        # Well within a lease: nothing more is waited for.
        assert time.monotonic() - began < 8
    info = await lane.info()
    assert (place.ids, info["num_ack_pending"], info["num_pending"]) == (["a"], 0, 1)


async def test_a_lease_that_follows_knows_what_was_edited_and_does_not_wait_for_slow_subscribers(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, forward: Function, tmp_path: Path
) -> None:
    """One test for both, since a lease takes its time."""
    slow, before, after = subscriber.place(Hold(), Say()), subscriber.place(), subscriber.place()
    full = await nats.serve(forward, subscriber=slow.uri)
    edited = await nats.serve(forward, subscriber=before.uri)
    names = " ".join(f"{lane.channel.stream}/{lane.consumer}" for lane in (full, edited))
    settings = {"FORWARD_CONSUMERS": names, "FORWARD_MAX_IN_FLIGHT": "1"}
    with Function("forward", shared_server.url, tmp_path, **settings):
        await full.store("slow")
        await edited.store("first")
        await slow.wait(1, DELIVERED_SECONDS)
        await before.wait(1, DELIVERED_SECONDS)
        await full.store("fresh")
        said = {METADATA_KEY: json.dumps(metadata(edited.channel, subscriber=after.uri))}
        await nats.edit_consumer(edited.channel, edited.consumer, said)
        number = 0

        async def has_turned() -> bool:
            nonlocal number
            number += 1
            await edited.store(f"next-{number}")
            await settled(edited)
            return bool(after.ids)

        await until("events go to the new address", has_turned, DELIVERED_SECONDS)
        await until("the fresh one came", lambda: "fresh" in slow.ids, DELIVERED_SECONDS)
        slow.release()
        await settled(full)


async def test_one_that_is_leased_to_as_well_stays_a_lease_for_whoever_asks(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, tmp_path: Path, forward: Function
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place().uri)
    with standing(shared_server, tmp_path, lane) as function:
        answer = await Lane(nats, function, lane.channel, lane.consumer).lease()

    assert answer["pending"] == 0


def test_what_names_no_consumer_is_refused_at_the_start(shared_server: NatsServer, tmp_path: Path) -> None:
    with pytest.raises(DidNotStart, match="FORWARD_CONSUMERS has 'orders': give <stream>/<consumer>"):
        Function("forward", shared_server.url, tmp_path, FORWARD_CONSUMERS="orders").start()
