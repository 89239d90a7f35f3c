"""Troubles of a channel that is as wanted: its conditions show them, and no longer when they are over."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headrace.forward import one_event
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.functions import TOKEN, Function
from tests.support.functions.in_process import InProcess
from tests.support.functions.reconciling import Hook, condition
from tests.support.functions.shop import DURABLE, open_shop
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

TROUBLES = ("AckWindowsOpen", "AsideStreamHasRoom", "NoEventsStuck", "NoEventsDiscarded", "PullsServed")
LATER = {"retry": 3, "backoffDelay": "PT1H", "backoffPolicy": "linear"}


async def limit_aside(nats: Nats, names: Channel, **limits: int) -> None:
    info = await nats.call(f"STREAM.INFO.{names.aside}")
    await nats.call(f"STREAM.UPDATE.{names.aside}", {**info["config"], **limits})


async def test_a_channel_without_troubles_says_so(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place())
    answer = await shop.sync()
    assert {kind: condition(answer, kind)["status"] for kind in TROUBLES} == dict.fromkeys(TROUBLES, "True")
    assert answer["resyncAfterSeconds"] == 0


async def test_a_full_ack_window_is_a_condition_until_it_has_room(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(503))
    template = {"maxAckPending": 2}
    shop = await open_shop(nats, client, forward, place, delivery=LATER, consumerConfigTemplate=template)
    await shop.lane.store("1", "2", "3")
    assert (await shop.lane.lease())["retried"] == 2
    assert await shop.troubles() == {"AckWindowsOpen": "AckWindowFull"}
    words = await shop.words("AckWindowsOpen")
    assert words.startswith("demo/billing has 2 of at most 2 events delivered and not settled; ")
    assert words.endswith("mend the subscriber, shorten its back-off, or raise maxAckPending")
    # Nobody tells when it is over, so it is looked at again.
    assert (await shop.sync())["resyncAfterSeconds"] == 30.1
    # An administrator gives the consumer more room.
    info = await shop.lane.info()
    body = {"stream_name": shop.lane.channel.stream, "config": {**info["config"], "max_ack_pending": 3}}
    shop.manifest["spec"]["consumerConfigTemplate"]["maxAckPending"] = 3
    await nats.call(f"CONSUMER.CREATE.{shop.lane.channel.stream}.{DURABLE}", body)
    assert await shop.troubles() == {}


@pytest.mark.parametrize(
    ("limit", "more"),
    [
        pytest.param({"max_msgs": 1}, {}, id="of messages"),
        # There is still room to note which event it is.
        pytest.param({"max_bytes": 1100}, {"NoEventsStuck": "EventsStuck"}, id="of bytes"),
    ],
)
async def test_a_full_aside_stream_is_a_condition_until_it_has_room(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber, limit: dict[str, int], more: dict[str, str]
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place(Say(400)))
    await limit_aside(nats, shop.lane.channel, **limit)
    await shop.lane.store("1", "2", data=bytes(300))
    answer = await shop.lane.lease(max_in_flight=1)
    assert (answer["parked"], answer["stuck"]) == (1, 1)
    assert await shop.troubles() == {"AsideStreamHasRoom": "AsideStreamFull", **more}
    assert f"{shop.lane.channel.aside} holds " in await shop.words("AsideStreamHasRoom")
    await nats.call(f"STREAM.PURGE.{shop.lane.channel.aside}")
    assert await shop.troubles() == {}


async def test_events_too_large_to_be_parked_are_a_condition_until_they_are_settled(
    nats: Nats, client: Client, shared_server: NatsServer, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", shared_server.url)
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    monkeypatch.setattr(one_event, "LEAST_STUCK_WAIT", timedelta(seconds=0.4))
    place = subscriber.place(Say(400), Say(400), Say(202))
    with InProcess("forward") as forward:
        shop = await open_shop(nats, client, forward, place)
        await limit_aside(nats, shop.lane.channel, max_msg_size=1500)
        await shop.lane.store("large", data=bytes(2000))
        assert (await shop.lane.lease())["stuck"] == 1
        assert await shop.troubles() == {"NoEventsStuck": "EventsStuck"}
        assert (await shop.words("NoEventsStuck")).startswith("demo/billing: 1 (sequence 1); ")
        # Its budget is used up: each time one attempt is left, and the last one is taken.
        answer = await shop.lane.lease(linger=1)
    assert (answer["stuck"], answer["delivered"]) == (1, 1)
    assert place.ids == ["large", "large", "large"]
    assert await shop.troubles() == {}
    assert await nats.stored(shop.lane.channel.aside) == []


async def test_what_the_server_discards_before_its_turn_is_counted(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place(), stream=stream(maxMsgs=5, discard="Old"))
    await shop.lane.store(*map(str, range(12)))
    answer = await shop.lane.lease()
    assert (answer["delivered"], answer["discarded"]) == (5, 7)
    await shop.lane.store(*map(str, range(12, 18)))
    answer = await shop.lane.lease()
    assert (answer["delivered"], answer["discarded"]) == (5, 1)
    assert await shop.troubles() == {"NoEventsDiscarded": "EventsDiscarded"}
    assert (await shop.words("NoEventsDiscarded")).startswith("demo/billing: 8; ")
    assert (await shop.sync())["resyncAfterSeconds"] == 0


async def test_what_the_server_discards_while_it_waits_for_its_retry_is_counted(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(503), Say(503), Say(202))
    limits = stream(maxMsgs=3, discard="Old")
    shop = await open_shop(nats, client, forward, place, stream=limits, delivery=LATER)
    await shop.lane.store("1", "2")
    assert (await shop.lane.lease())["retried"] == 2
    await shop.lane.store("3", "4", "5")
    answer = await shop.lane.lease()
    assert (answer["delivered"], answer["discarded"]) == (3, 0)
    assert (await shop.words("NoEventsDiscarded")).startswith("demo/billing: 2; ")
    # Each is counted once, and its record is gone.
    assert (await shop.words("NoEventsDiscarded")).startswith("demo/billing: 2; ")
    assert await shop.lane.aside("stage") == [one for one in await shop.lane.aside("stage") if "total" in one.subject]


async def test_what_grows_too_old_before_its_turn_is_counted(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    shop = await open_shop(nats, client, forward, subscriber.place(), stream=stream(maxAge="1s"))
    await shop.lane.store("1", "2", "3")
    await until("they are gone", lambda: is_empty(nats, shop.lane.channel))
    await shop.lane.store("4")
    answer = await shop.lane.lease()
    assert (answer["delivered"], answer["discarded"]) == (1, 3)


async def is_empty(nats: Nats, names: Channel) -> bool:
    return int((await nats.call(f"STREAM.INFO.{names.stream}"))["state"]["messages"]) == 0


async def test_nothing_counts_as_discarded_that_was_gone_before_the_subscriber_came(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    names = nats.name_channel()
    manifest = channel(name=names.name, namespace=names.namespace, stream=stream(maxMsgs=2, discard="Old"))
    await Hook(client).sync(manifest)
    lane = Lane(nats, forward, names, DURABLE)
    await lane.store("1", "2", "3", "4")
    template = {"deliverPolicy": "All"}
    late = entry("aaaa-1", "billing", subscriberUri=subscriber.place().uri)
    manifest["spec"].update(subscribers=[late], consumerConfigTemplate=template)
    await Hook(client).sync(manifest)
    await lane.store("5")
    answer = await lane.lease()
    assert answer["discarded"] <= 1
    assert answer["delivered"] + answer["discarded"] == 3


async def test_leases_at_the_same_time_count_each_gap_once(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202, delay=0.01))
    shop = await open_shop(nats, client, forward, place, stream=stream(maxMsgs=60, discard="Old"))
    answers = []
    for first, last in ((0, 100), (100, 180)):
        await shop.lane.store(*map(str, range(first, last)))
        answers += await asyncio.gather(*(shop.lane.lease(max_in_flight=10) for _ in range(3)))
    assert sum(answer["delivered"] for answer in answers) == 120
    assert sum(answer["discarded"] for answer in answers) == 60
    assert (await shop.words("NoEventsDiscarded")).startswith("demo/billing: 60; ")
