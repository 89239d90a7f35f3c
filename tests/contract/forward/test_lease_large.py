"""Messages as large as NATS takes them, or larger than it would take today: none stalls a lease or makes it spin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Lane, Nats, binary_event

pytest_plugins = ["tests.support.functions.served"]

MIB = 1024 * 1024
LEAST = {"FORWARD_MAX_IN_FLIGHT_BYTES": str(MIB)}


@pytest.fixture(scope="module")
def tight(shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    """A `forward` that holds at most as many bytes as the largest message has."""
    with Function("forward", shared_server.url, served_directory, **LEAST) as function:
        yield function


async def pulls(nats: Nats, lane: Lane) -> list[bytes]:
    """The pull requests from now on."""
    seen: list[bytes] = []

    async def note(message: object) -> None:
        seen.append(message.data)  # type: ignore[attr-defined]  # nats-py hands on a Msg

    subject = f"$JS.API.CONSUMER.MSG.NEXT.{lane.channel.stream}.{lane.consumer}"
    await nats.client.subscribe(subject, cb=note)
    await nats.client.flush()
    return seen


async def test_the_largest_message_that_there_may_be_is_delivered(
    nats: Nats, tight: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(tight, subscriber=subscriber.place().uri)
    seen = await pulls(nats, lane)
    # Without headers, which would count.
    await nats.client.request(lane.channel.subject, bytes(MIB), timeout=5)
    await lane.store("small")
    async with asyncio.timeout(10):
        assert (await lane.lease())["delivered"] == 2
    assert len(seen) <= 4


@pytest.mark.parametrize("retries", [0, 1])
async def test_a_message_larger_than_nats_would_take_today_is_delivered(
    tmp_path: Path, subscriber: Subscriber, retries: int
) -> None:
    server = NatsServer(tmp_path / "nats", config="max_payload: 4MB").start()
    try:
        place = subscriber.place(*[Say(503)] * retries, Say(202))
        async with Nats(server.url) as nats:
            with Function("forward", server.url, tmp_path, **LEAST) as function:
                lane = await nats.serve(function, subscriber=place.uri, policy={"retry": 1, "backoffDelay": "PT0.1S"})
                await nats.store(lane.channel.subject, bytes(3 * MIB), binary_event("large"))
                await lane.store("small")
        server.restart(config="max_payload: 1MB")
        async with Nats(server.url) as nats:
            with Function("forward", server.url, tmp_path, **LEAST) as function:
                lane = Lane(nats, function, lane.channel, lane.consumer)
                seen = await pulls(nats, lane)
                async with asyncio.timeout(20):
                    assert (await lane.lease(linger=1))["delivered"] == 2
                assert len(seen) <= 8
        assert sorted(set(place.ids)) == ["large", "small"]
    finally:
        server.kill()


async def test_leases_side_by_side_ask_for_no_more_than_their_connection_bears(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    """nats-server drops a connection for which more than 64 MiB wait, and with it every lease of the process."""
    channel = await nats.make_channel()
    lanes = [await nats.serve(forward, channel, subscriber=subscriber.place().uri) for _ in range(8)]
    await lanes[0].store(*map(str, range(60)), data=bytes(900_000))
    answers = await asyncio.gather(*(lane.lease(max_in_flight=100, linger=3) for lane in lanes))
    assert [answer["delivered"] for answer in answers] == [60] * 8
    assert [answer["redelivered"] for answer in answers] == [0] * 8
