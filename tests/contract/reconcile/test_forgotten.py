"""Events that NATS gives up before their retries are over: found, told as what they are, parked, and replayable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace.io.nats.client import Client
from tests.support.functions.functions import Function
from tests.support.functions.shop import Shop, open_shop
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.parking import shelf
from tests.support.nats.streams import Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

QUICKLY = {"retry": 9, "backoffDelay": "PT0.05S", "backoffPolicy": "linear"}


async def give_up(shop: Shop, *ids: str) -> None:
    """Have NATS give up these events after two deliveries, as a `max_deliver` by hand does."""
    lane = shop.lane
    await lane.nats.edit_consumer(lane.channel, lane.consumer, max_deliver=2)
    await lane.store(*ids)

    async def is_given_up() -> bool:
        await lane.lease(linger=0.2)
        return (await lane.info())["num_ack_pending"] == 0

    await until("NATS has given them up", is_given_up)


async def forgotten(nats: Nats, client: Client, forward: Function, subscriber: Subscriber) -> Shop:
    """A channel of which NATS has given up the event "1"; its subscriber takes it by now."""
    shop = await open_shop(nats, client, forward, subscriber.place(Say(503), Say(503), Say(202)), delivery=QUICKLY)
    shop.hook.now = datetime.now(UTC)
    await give_up(shop, "1")
    return shop


async def test_what_nats_gives_up_is_told_and_then_parked_and_can_be_replayed(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await forgotten(nats, client, forward, subscriber)
    assert len(await shop.lane.aside("stage")) == 1

    # It is late by a little, which an acknowledgement may be, too.
    assert await shop.troubles() == {}
    shop.hook.later(120)
    assert await shop.troubles() == {"RetriesHeld": "RetriesForgotten"}
    assert (await shop.words("RetriesHeld")).startswith("demo/billing: 1 (sequence 1); ")
    assert (await shop.sync())["resyncAfterSeconds"] == 30.1
    shop.hook.later(30)
    assert await shop.troubles() == {}

    assert await shop.lane.aside("stage") == []
    events = shelf(client, shop.lane.channel)
    [parked] = (await events.page()).events
    assert (parked.event.id, parked.sequence, parked.subscription, parked.status) == ("1", 1, "demo/billing", 503)
    assert parked.reason == (
        "NATS gave it up before its retries were over: was max_deliver set on the consumer by hand? "
        "subscriber gave status 503 on attempt 2"
    )
    await events.replay_to_subscriber(parked.position, "monday")
    assert (await shop.lane.lease())["delivered"] == 1


async def test_one_that_is_held_is_never_taken_for_one(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    later = {"retry": 3, "backoffDelay": "PT1H", "backoffPolicy": "linear"}
    shop = await open_shop(nats, client, forward, subscriber.place(Say(503)), delivery=later)
    shop.hook.now = datetime.now(UTC)
    await shop.lane.store("1")
    assert (await shop.lane.lease())["retried"] == 1

    # An hour after its retry was due, with nobody there to make it.
    for _ in range(3):
        shop.hook.later(7200)
        assert await shop.troubles() == {}

    assert len(await shop.lane.aside("stage")) == 1
    assert await shop.lane.aside() == []


async def test_it_is_found_beside_others_that_are_held(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place(Say(503)), delivery=QUICKLY)
    shop.hook.now = datetime.now(UTC)
    await give_up(shop, "1", "2")
    shop.manifest["spec"]["subscribers"][0]["delivery"] = {**QUICKLY, "backoffDelay": "PT1H"}
    await shop.sync()
    await shop.lane.store("held")
    assert (await shop.lane.lease())["retried"] == 1

    shop.hook.later(120)
    assert (await shop.words("RetriesHeld")).startswith("demo/billing: 2 (sequence 1, 2); ")
    shop.hook.later(30)
    await shop.sync()

    events = await shelf(client, shop.lane.channel).page()
    assert sorted(one.event.id for one in events.events) == ["1", "2"]
    assert [one.subject.rpartition(".")[2] for one in await shop.lane.aside("stage")] == ["3"]


async def test_one_that_was_delivered_meanwhile_loses_its_mark(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await forgotten(nats, client, forward, subscriber)
    shop.hook.later(120)
    assert await shop.troubles() == {"RetriesHeld": "RetriesForgotten"}
    [record, mark] = await shop.lane.aside("stage")
    assert mark.subject == f"{record.subject}.forgotten"
    await nats.call(f"STREAM.PURGE.{shop.lane.channel.aside}", {"filter": record.subject})

    assert await shop.troubles() == {}

    assert await shop.lane.aside("stage") == []
    assert await shop.lane.aside() == []


async def test_one_that_was_deleted_from_the_stream_is_forgotten_for_good(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await forgotten(nats, client, forward, subscriber)
    await shop.lane.store("2")
    await nats.call(f"STREAM.MSG.DELETE.{shop.lane.channel.stream}", {"seq": 1})
    await shop.lane.lease()
    shop.hook.later(120)
    await shop.sync()
    shop.hook.later(30)
    await shop.sync()

    assert await shop.lane.aside() == []
    assert not any(one.subject.endswith(".1") for one in await shop.lane.aside("stage"))


async def test_one_that_finds_no_room_stays_told(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await forgotten(nats, client, forward, subscriber)
    info = await nats.call(f"STREAM.INFO.{shop.lane.channel.aside}")
    shop.hook.later(120)
    await shop.sync()
    await nats.call(f"STREAM.UPDATE.{shop.lane.channel.aside}", {**info["config"], "max_msgs": 2})
    shop.hook.later(30)
    told = await shop.troubles()

    assert told["RetriesHeld"] == "RetriesForgotten"
    assert len(await shop.lane.aside("stage")) == 2


async def test_doctor_tells_them(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber, shared_server: NatsServer
) -> None:
    shop = await forgotten(nats, client, forward, subscriber)
    [record] = await shop.lane.aside("stage")
    long_ago = (datetime.now(UTC) - timedelta(minutes=10)).timestamp()
    data = record.data.replace(b'"due": ', b'"due": %f, "was": ' % long_ago)
    await nats.store(record.subject, data)

    ran = await Cli(shared_server.url)("doctor", shop.lane.channel.path[1:], "-o", "json")

    codes = {item["code"]: item["what"] for item in ran.json["items"]}
    assert "sequence 1" in codes["retries-forgotten"]
    assert "a retry is due for 10m" in codes["failing"]


@pytest.mark.parametrize("damage", [b"{", b'{"due": 1e400}'])
async def test_one_whose_record_was_damaged_is_parked_too(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber, damage: bytes
) -> None:
    shop = await forgotten(nats, client, forward, subscriber)
    [record] = await shop.lane.aside("stage")
    await nats.store(record.subject, damage)
    await shop.sync()
    shop.hook.later(30)
    await shop.sync()

    [parked] = (await shelf(client, shop.lane.channel).page()).events
    assert (parked.event.id, parked.attempts) == ("1", 0)
