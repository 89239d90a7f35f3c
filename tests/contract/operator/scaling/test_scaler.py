"""How the scaler wakes `forward`: by hints, by lag, and not when nothing could be delivered."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.support.functions.scaling import Scale, ended, gaps, hint, leases, none_within, pull, store, subscribed
from tests.support.http.subscriber import Hold, Place
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, NANOSECONDS, Channel, Nats, metadata

pytest_plugins = ["tests.support.functions.scaled"]

TOKEN = "the-shared-token"


async def test_a_hint_opens_one_lease_at_once(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    channel, durable = await subscribed(own_nats)

    async with scale(channel):
        hinted_at = time.monotonic()
        await hint(own_nats, channel)
        [request] = await stand_in.wait(1)

    assert request.at - hinted_at < 10
    assert request.header("authorization") == f"Bearer {TOKEN}"
    assert json.loads(request.body) == {
        "stream": channel.stream,
        "consumer": durable,
        "seconds": 20.0,
        "linger": 2.0,
        "max_in_flight": 7,
        "progress_seconds": 2.0,
    }
    assert len(stand_in.received) == 1


async def test_a_hint_wakes_every_subscriber_of_its_channel_and_no_other(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, first = await subscribed(own_nats)
    second = await own_nats.make_consumer(channel, {METADATA_KEY: json.dumps(metadata(channel))})
    other, _ = await subscribed(own_nats)

    async with scale(channel, other):
        await hint(own_nats, channel)
        await stand_in.wait(2)
        await none_within(stand_in, 0.3, after=2)

    assert {lease["consumer"] for lease in leases(stand_in)} == {first, second}


async def test_hints_while_a_lease_is_open_open_no_second_one(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    stand_in.says(Hold(ended()))
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        for _ in range(5):
            await hint(own_nats, channel)
        await stand_in.wait(1)
        await none_within(stand_in, 0.5, after=1)


async def test_a_lease_beyond_its_time_holds_no_fresh_event_up(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    stand_in.says(Hold(ended()), ended())
    channel, _ = await subscribed(own_nats)

    async with scale(channel, lease_seconds=0.5):
        await hint(own_nats, channel)
        await stand_in.wait(1)
        await none_within(stand_in, 1.0, after=1)
        await asyncio.sleep(2.0)
        await hint(own_nats, channel)
        await stand_in.wait(2)


@pytest.mark.parametrize(
    ("stored_meanwhile", "further_leases"),
    [
        pytest.param(1, 1, id="an event that the lease did not see gets another lease"),
        pytest.param(0, 0, id="a hint for what it has seen costs a look, not a lease"),
    ],
)
async def test_a_hint_in_the_last_moment_of_a_lease_is_not_lost(
    own_nats: Nats, stand_in: Place, scale: Scale, stored_meanwhile: int, further_leases: int
) -> None:
    stand_in.says(ended(delay=0.5), Hold(ended()))
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        await hint(own_nats, channel)
        await stand_in.wait(1)
        await store(own_nats, channel, stored_meanwhile)
        await hint(own_nats, channel)
        await none_within(stand_in, 1.5, after=1 + further_leases)


async def test_hints_are_heard_again_after_a_restart_of_the_server(
    own_nats: Nats, nats_server: NatsServer, stand_in: Place, scale: Scale
) -> None:
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        nats_server.restart()
        await _until_heard(own_nats, channel, stand_in)


async def _until_heard(own_nats: Nats, channel: Channel, stand_in: Place) -> None:
    """A hint is only worth one lease, and comes to nobody while nobody listens: so hint until it is heard."""
    for _ in range(100):
        if own_nats.client.is_connected:
            await own_nats.client.publish(f"headrace.wake.{channel.stream}")
        await asyncio.sleep(0.1)
        if stand_in.received:
            return
    raise AssertionError("no hint was heard within 10 s")


async def test_a_hint_finds_a_consumer_that_is_younger_than_the_last_look(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel = await own_nats.make_channel()

    async with scale(channel):
        durable = await own_nats.make_consumer(channel, {METADATA_KEY: json.dumps(metadata(channel))})
        await store(own_nats, channel, 1)
        await asyncio.sleep(1.0)
        await hint(own_nats, channel)
        await stand_in.wait(1)

    assert leases(stand_in)[0]["consumer"] == durable


@pytest.mark.parametrize(
    ("stored", "most", "slots"),
    [
        pytest.param(1, 4, 1, id="one for a little lag"),
        pytest.param(5, 4, 3, id="one per threshold of two"),
        pytest.param(9, 2, 2, id="never more than max-scale"),
    ],
)
async def test_the_sweep_finds_what_nobody_hinted_at(
    own_nats: Nats, stand_in: Place, scale: Scale, stored: int, most: int, slots: int
) -> None:
    stand_in.says(Hold(ended()))
    channel, _ = await subscribed(own_nats, lagThreshold=2, maxScale=most)

    async with scale(channel, sweeping=0.2):
        await store(own_nats, channel, stored)
        await stand_in.wait(slots)
        await none_within(stand_in, 0.5, after=slots)


async def test_a_slot_opens_its_next_lease_right_after_the_answer_and_never_before(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    busy = ended(delay=0.3, delivered=10, pending=1)
    stand_in.says(busy, busy, busy, ended(delay=0.3, delivered=1))
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        await store(own_nats, channel, 1)
        await hint(own_nats, channel)
        requests = await stand_in.wait(4)
        await none_within(stand_in, 0.8, after=4)

    assert stand_in.most_at_once == 1
    assert all(0.29 <= gap < 5 for gap in gaps(requests)), gaps(requests)


async def test_slots_close_after_their_answer_when_fewer_are_wanted(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, _ = await subscribed(own_nats, lagThreshold=1, maxScale=3)
    await store(own_nats, channel, 3)
    still, last = ended(delay=0.5, delivered=1, pending=1), ended(delay=0.5, delivered=1)
    stand_in.says(still, still, still, last)

    async with scale(channel):
        await stand_in.wait(4)
        await none_within(stand_in, 1.0, after=4)

    assert stand_in.most_at_once == 3


@pytest.mark.parametrize(
    ("subscriber", "config"),
    [
        pytest.param({"state": "gone"}, {}, id="whose Subscription is gone"),
        pytest.param({"state": "refused"}, {}, id="that was refused"),
        pytest.param({}, {"pause_until": "2100-01-01T00:00:00Z"}, id="that is paused"),
        pytest.param({"policy": {"timeout": "soon"}}, {}, id="whose metadata was damaged"),
        pytest.param(None, {}, id="that is not ours"),
    ],
)
async def test_no_lease_is_opened_for_a_consumer(
    own_nats: Nats, stand_in: Place, scale: Scale, subscriber: dict[str, Any] | None, config: dict[str, Any]
) -> None:
    channel = await own_nats.make_channel()
    marks = {} if subscriber is None else {METADATA_KEY: json.dumps(metadata(channel, **subscriber))}
    await own_nats.make_consumer(channel, marks, **config)
    await store(own_nats, channel, 3)

    async with scale(channel, sweeping=0.1):
        await hint(own_nats, channel)
        await none_within(stand_in, 0.6)


async def test_no_lease_is_opened_while_the_ack_window_is_full(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    channel = await own_nats.make_channel()
    marks = {METADATA_KEY: json.dumps(metadata(channel))}
    durable = await own_nats.make_consumer(channel, marks, max_ack_pending=2, ack_wait=60 * NANOSECONDS)
    await store(own_nats, channel, 5)
    await pull(own_nats, channel, durable, 2)

    async with scale(channel, sweeping=0.1):
        await hint(own_nats, channel)
        await none_within(stand_in, 0.6)


async def test_streams_can_be_replaced_at_run_time(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    old, _ = await subscribed(own_nats)
    new, durable = await subscribed(own_nats)
    await store(own_nats, new, 1)

    async with scale(old) as running:
        running.scaler.serve([new.stream])
        await stand_in.wait(1)
        await hint(own_nats, old)
        await none_within(stand_in, 0.3, after=1)

    assert leases(stand_in)[0]["consumer"] == durable


async def test_an_open_lease_is_given_up_when_its_subscriber_changes(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(Hold(ended()))
    channel, durable = await subscribed(own_nats, subscriber="http://old.example")
    await store(own_nats, channel, 1)

    async with scale(channel) as running:
        [old] = await stand_in.wait(1)
        await change(own_nats, channel, durable, subscriber="http://new.example")
        await running.scaler.refresh(channel.stream)
        await stand_in.wait(2)
        await none_within(stand_in, 0.3, after=2)

        assert old.gone_at is not None
        assert running.scaler.stats()["open"] == 1


async def test_an_open_lease_is_given_up_when_its_subscription_goes(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(Hold(ended()))
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)

    async with scale(channel) as running:
        [old] = await stand_in.wait(1)
        await change(own_nats, channel, durable, state="gone")
        await running.scaler.refresh(channel.stream)
        await none_within(stand_in, 0.3, after=1)

        assert old.gone_at is not None


async def test_a_changed_subscriber_counts_from_the_next_look_on(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    stand_in.says(Hold(ended()))
    channel, durable = await subscribed(own_nats, lagThreshold=1000)
    await store(own_nats, channel, 4)

    async with scale(channel) as running:
        await stand_in.wait(1)
        await change(own_nats, channel, durable, lagThreshold=2)
        await running.scaler.refresh(channel.stream)
        await stand_in.wait(2)

        assert stand_in.received[0].gone_at is None


async def change(own_nats: Nats, channel: Channel, durable: str, **subscriber: Any) -> None:
    """Another word in the metadata of a consumer."""
    info = await own_nats.call(f"CONSUMER.INFO.{channel.stream}.{durable}")
    marks = {METADATA_KEY: json.dumps(metadata(channel, **subscriber))}
    body = {"stream_name": channel.stream, "config": {**info["config"], "metadata": marks}}
    await own_nats.call(f"CONSUMER.CREATE.{channel.stream}.{durable}", body)
