"""Replays of parked events on a real server: to the one subscriber that did not take it, or elsewhere.

The subscribers show who gets a replay.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import Refused
from headrace.core.http import Headers, HttpAnswer
from headrace.io.http import HttpClient
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.aside import ParkedEvents
from headrace.io.nats.client import Client
from tests.support.functions.functions import Function
from tests.support.http.sending import send
from tests.support.http.subscriber import Place, Say, Subscriber
from tests.support.nats.nats_server import free_port
from tests.support.nats.parking import ids, park, shelf
from tests.support.nats.streams import DATA, METADATA_KEY, Nats, binary_event, metadata

pytest_plugins = ["tests.support.functions.served"]

SECOND = timedelta(seconds=1)

# ── to the subscriber ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_replay_reaches_its_subscriber_and_none_of_the_others(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place, other_place = subscriber.place(Say(400), Say(202)), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    other = await nats.serve(forward, lane.channel, subscriber=other_place.uri, name="audit")
    await park(lane, "1")
    await other.lease()
    events = shelf(client, lane.channel)
    ack = await events.replay_to_subscriber((await events.page()).events[0].position, "monday")
    assert (ack.stream, ack.sequence, ack.duplicate) == (lane.channel.stream, 2, False)
    assert (await events.page()).events == ()
    assert (await lane.lease())["delivered"] == 1
    answer = await other.lease()
    assert (answer["skipped"], answer["delivered"], answer["pending"], answer["ack_pending"]) == (1, 0, 0, 0)
    assert (place.ids, other_place.ids) == (["1", "1"], ["1"])
    before, after = place.received
    assert (before.event, before.body) == (after.event, after.body)


async def test_a_replay_is_published_where_a_stream_that_moves_subjects_listens(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(400), Say(202))
    moved = await nats.make_channel(subject_transform={"src": ">", "dest": "v1.>"})
    lane = await nats.serve(forward, moved, subscriber=place.uri)
    await park(lane, "1")
    events = shelf(client, moved)
    await events.replay_to_subscriber((await events.page()).events[0].position, "monday")
    assert (await lane.lease())["delivered"] == 1
    assert place.ids == ["1", "1"]


async def test_one_run_brings_an_event_back_to_both_who_did_not_take_it(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    places = [subscriber.place(Say(400), Say(202)) for _ in range(2)]
    lane = await nats.serve(forward, subscriber=places[0].uri)
    other = await nats.serve(forward, lane.channel, subscriber=places[1].uri, name="audit")
    await park(lane, "1")
    await park(other)
    events = shelf(client, lane.channel)
    for one in (await events.page()).events:
        assert not (await events.replay_to_subscriber(one.position, "monday")).duplicate
    for each in (lane, other):
        answer = await each.lease()
        assert (answer["delivered"], answer["skipped"]) == (1, 1)
    assert [place.ids for place in places] == [["1", "1"]] * 2


async def test_a_replay_that_fails_again_is_parked_again(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await nats.store(lane.channel.subject, b"bytes of a stranger")
    await park(lane)
    events = shelf(client, lane.channel)
    [first] = (await events.page()).events
    await events.replay_to_subscriber(first.position, "monday")
    assert (await lane.lease())["parked"] == 1
    [second] = (await events.page()).events
    assert second.position != first.position
    assert (second.event.id, second.event.source) == (first.event.id, first.event.source)
    assert (await events.show(second.position)).data == b"bytes of a stranger"


async def test_a_replay_that_broke_off_before_the_copy_was_deleted_stores_nothing_twice(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(400), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri)
    await park(lane, "1")
    events = shelf(client, lane.channel)
    position = (await events.page()).events[0].position

    class Crash(Exception):
        pass

    class Dying(ParkedEvents):
        async def discard(self, position: int) -> bool:
            raise Crash(position)

    with pytest.raises(Crash):
        await Dying(client, JetStreamApi(client), lane.channel.aside).replay_to_subscriber(position, "monday")
    assert ids(await events.page()) == ["1"]
    assert (await events.replay_to_subscriber(position, "monday")).duplicate
    assert (await events.page()).events == ()
    await lane.lease()
    assert place.ids == ["1", "1"]


async def test_a_replay_finds_the_consumer_that_was_made_for_its_subscription_since(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "1")
    await nats.call(f"CONSUMER.DELETE.{lane.channel.stream}.{lane.consumer}")
    place = subscriber.place()
    newer = await nats.serve(forward, lane.channel, {"deliver_policy": "new"}, subscriber=place.uri)
    events = shelf(client, lane.channel)
    await events.replay_to_subscriber((await events.page()).events[0].position, "monday")
    assert (await newer.lease())["delivered"] == 1
    assert place.ids == ["1"]


@pytest.mark.parametrize(
    "now",
    [
        pytest.param({"name": "audit"}, id="another Subscription"),
        pytest.param({"state": "gone", "goneSince": "2026-11-28T12:00:00+00:00"}, id="on its way out"),
        pytest.param({"state": "refused", "reason": "no address"}, id="can't be delivered to"),
    ],
)
async def test_without_a_consumer_that_delivers_the_event_stays_parked(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber, now: dict[str, Any]
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "1")
    said = metadata(lane.channel, subscriber="http://127.0.0.1/", **now)
    await nats.edit_consumer(lane.channel, lane.consumer, {METADATA_KEY: json.dumps(said)})
    events = shelf(client, lane.channel)
    with pytest.raises(Refused) as refused:
        await events.replay_to_subscriber((await events.page()).events[0].position, "monday")
    assert refused.value.status == 409
    assert ids(await events.page()) == ["1"]
    assert len(await nats.stored(lane.channel.stream)) == 1


async def test_an_event_whose_stream_was_lost_is_not_replayed_into_another(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "1")
    events = shelf(client, lane.channel)
    position = (await events.page()).events[0].position
    await nats.call(f"STREAM.DELETE.{lane.channel.stream}")
    with pytest.raises(Refused):
        await events.replay_to_subscriber(position, "monday")
    assert ids(await events.page()) == ["1"]


# ── elsewhere ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_replay_to_another_channel_reaches_all_its_subscribers(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    places = [subscriber.place(), subscriber.place()]
    elsewhere = await nats.serve(forward, subscriber=places[0].uri)
    beside = await nats.serve(forward, elsewhere.channel, subscriber=places[1].uri, name="audit")
    await park(lane, "1")
    events, target = shelf(client, lane.channel), elsewhere.channel
    position = (await events.page()).events[0].position
    await events.replay_to_channel(position, "monday", target.namespace, target.name)
    for each in (elsewhere, beside):
        assert (await each.lease())["delivered"] == 1
    assert [place.ids for place in places] == [["1"], ["1"]]
    assert (await events.page()).events == ()


async def test_a_replay_is_not_swallowed_by_the_dedup_window(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    """Two runs within the window, and the event itself is in the channel, too."""
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    target = await nats.make_channel()
    await park(lane, "1")
    events = shelf(client, lane.channel)
    for run in ("monday", "tuesday"):
        [one] = (await events.page()).events
        ack = await events.replay_to_channel(one.position, run, target.namespace, target.name)
        assert not ack.duplicate
        if run == "monday":
            await park(lane, "1")
    assert [one.headers["ce-id"] for one in await nats.stored(target.stream)] == ["1", "1"]


async def test_a_channel_that_does_not_exist_takes_nothing(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "1")
    events = shelf(client, lane.channel)
    with pytest.raises(Refused) as refused:
        await events.replay_to_channel((await events.page()).events[0].position, "monday", "demo", "nowhere")
    assert refused.value.status == 404
    assert ids(await events.page()) == ["1"]


@pytest.mark.parametrize(("says", "parked"), [(Say(200), []), (Say(503), ["1"]), (None, ["1"])])
async def test_an_address_gets_the_event_and_must_take_it(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber, says: Say | None, parked: list[str]
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "1")
    place: Place | None = subscriber.place(says) if says is not None else None
    uri = f"http://127.0.0.1:{free_port()}/" if place is None else place.uri
    http = HttpClient()

    async def post(to: Destination, headers: Headers, body: bytes, timeout: timedelta) -> HttpAnswer:
        return await http.post(to, headers, body, timeout, 1024)

    events = shelf(client, lane.channel)
    position = (await events.page()).events[0].position
    answer = await events.replay_to_uri(position, Destination(uri), post, 5 * SECOND)
    await http.close()
    assert answer.status == (says.status if says else None)
    assert ids(await events.page()) == parked
    if place is not None:
        assert (place.ids, place.received[0].body) == (["1"], b'{"n": 1}')


async def test_a_channel_that_has_the_event_does_not_cost_the_parked_one(
    nats: Nats, client: Client, receive: Function, forward: Function, subscriber: Subscriber
) -> None:
    lane, there = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri), await nats.make_channel()
    await park(lane, "1")
    http, events = HttpClient(), shelf(client, lane.channel)

    async def post(to: Destination, headers: Headers, body: bytes, timeout: timedelta) -> HttpAnswer:
        return await http.post(to, headers, body, timeout, 1024)

    await send(receive.url + there.path, DATA, binary_event("1"))
    [one] = (await events.page()).events
    with pytest.raises(Refused, match="has an event of the same source and id") as refused:
        await events.replay_to_uri(one.position, Destination(receive.url + there.path), post, 5 * SECOND)
    await http.close()
    assert refused.value.status == 409
    assert ids(await events.page()) == ["1"]
