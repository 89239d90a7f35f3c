"""Limits of the server on one pull: we obey one that its words name, and tell people of a refusal that names none.

Each limit as an administrator sets it: for the whole server, or by hand on the consumer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.functions import Function
from tests.support.functions.reconciling import condition
from tests.support.functions.shop import open_shop
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.parking import ids, park, shelf
from tests.support.nats.streams import NANOSECONDS, Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

GROUPS = {"priority_groups": ["theirs"], "priority_policy": "overflow"}


def numbered(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.fixture(scope="module")
def narrow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("narrow"), limits="max_request_batch: 10")
    server.start()
    yield server
    server.kill()


async def test_the_servers_limit_of_a_pull_is_obeyed(
    narrow_server: NatsServer, tmp_path: Path, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    with Function("forward", narrow_server.url, tmp_path) as forward:
        async with Nats(narrow_server.url) as nats:
            lane = await nats.serve(forward, subscriber=place.uri)
            await lane.store(*numbered(30))
            assert (await lane.lease())["delivered"] == 30
    assert Counter(place.ids) == Counter(numbered(30))


async def test_so_it_is_when_parked_events_are_listed(
    narrow_server: NatsServer, tmp_path: Path, subscriber: Subscriber
) -> None:
    connection = Client(NatsSettings(url=narrow_server.url))
    try:
        with Function("forward", narrow_server.url, tmp_path) as forward:
            async with Nats(narrow_server.url) as nats:
                lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
                await park(lane, *numbered(25))
                page = await shelf(connection, lane.channel).page()
    finally:
        await connection.close()
    assert sorted(ids(page), key=int) == numbered(25)


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({"max_batch": 1}, id="one message"),
        pytest.param({"max_bytes": 100}, id="fewer bytes than any event has"),
        pytest.param({"max_bytes": 2000}, id="bytes for a few events"),
        pytest.param({"max_expires": NANOSECONDS // 10}, id="a tenth of a second"),
        pytest.param({"max_expires": NANOSECONDS // 1000}, id="a thousandth of a second"),
        pytest.param({"max_expires": NANOSECONDS + 700}, id="a second and less than a microsecond"),
        pytest.param({"max_batch": 2, "max_bytes": 1000, "max_expires": NANOSECONDS}, id="all of them"),
    ],
)
async def test_a_limit_that_was_put_on_the_consumer_by_hand_is_obeyed(
    nats: Nats, forward: Function, subscriber: Subscriber, limit: dict[str, int]
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.nats.edit_consumer(lane.channel, lane.consumer, **limit)
    await lane.store(*numbered(12))
    assert (await lane.lease(linger=1.5))["delivered"] == 12
    assert Counter(place.ids) == Counter(numbered(12))


async def test_events_above_the_limit_of_bytes_follow_one_another_without_a_pause(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place().uri)
    await lane.nats.edit_consumer(lane.channel, lane.consumer, max_bytes=100)
    await lane.store(*numbered(100))
    # With a pause for each it would be a dozen.
    assert (await lane.lease(seconds=3, linger=0.5))["delivered"] == 100


async def test_a_limit_that_is_set_while_a_lease_pulls_is_obeyed(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    async with lane.leased(linger=1.5) as lease:
        await lane.store("first")
        await place.wait(1)
        await lane.nats.edit_consumer(lane.channel, lane.consumer, max_batch=2)
        await lane.store(*numbered(9))
        assert (await lease)["delivered"] == 10


async def test_a_short_limit_does_not_make_an_idle_lease_ask_without_a_pause(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place().uri)
    await lane.nats.edit_consumer(lane.channel, lane.consumer, max_expires=NANOSECONDS // 1000)
    asked: list[Any] = []

    async def count(message: Any) -> None:
        asked.append(message)

    await nats.client.subscribe(f"$JS.API.CONSUMER.MSG.NEXT.{lane.channel.stream}.>", cb=count)
    await nats.client.flush()
    await lane.lease(linger=1)
    assert 2 <= len(asked) <= 30


async def test_a_pull_that_is_refused_for_good_ends_the_lease_with_the_reason(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place())
    await nats.edit_consumer(shop.lane.channel, shop.lane.consumer, **GROUPS)
    await shop.lane.store("1")
    status, answer = await shop.lane.ask()
    assert status == 409
    assert answer["detail"] == (
        f"NATS refuses the pulls of consumer {shop.lane.consumer} of stream {shop.lane.channel.stream}: "
        "400 Bad Request - Priority Group missing"
    )
    # Reconciling takes the groups away; the condition is of what was found before.
    told = condition(await shop.sync(), "PullsServed")
    assert (told["status"], told["reason"], told["severity"]) == ("False", "PullsBringNothing", "Info")
    assert told["message"].startswith("demo/billing: 400 Bad Request - Priority Group missing; ")
    assert (await shop.lane.lease())["delivered"] == 1
    assert condition(await shop.sync(), "PullsServed")["status"] == "True"


async def test_pulls_that_break_off_one_after_the_other_are_told(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place())
    lane = shop.lane
    info = await lane.info()
    await nats.call(f"CONSUMER.DELETE.{lane.channel.stream}.{lane.consumer}")
    body = {"stream_name": lane.channel.stream, "config": {**info["config"], "max_waiting": 1}}
    await nats.call(f"CONSUMER.CREATE.{lane.channel.stream}.{lane.consumer}", body)
    await occupy(lane)
    status, answer = await lane.ask(seconds=4, linger=5)
    assert status == 503
    assert answer["detail"].endswith("break off one after the other: 409 Exceeded MaxWaiting")
    await until("the log warns", lambda: "pulls bring nothing" in forward.log)
    # Nothing is pending, so there is nothing to tell of either.
    assert condition(await shop.sync(), "PullsServed")["status"] == "True"


async def occupy(lane: Lane) -> None:
    """Somebody else's pull, which takes the only place."""
    await lane.nats.client.subscribe("elsewhere.pull")
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{lane.channel.stream}.{lane.consumer}"
    await lane.nats.client.publish(subject, b'{"batch":1,"expires":30000000000}', reply="elsewhere.pull")
    await lane.nats.client.flush()
    await asyncio.sleep(0.1)
