"""A request that wakes `receive` wakes `forward`, too, where its subscriber is known, or wished, to get the event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.functions.functions import Function
from tests.support.functions.scaling import Scale, ended, leases, none_within, store, subscribed
from tests.support.http.subscriber import Hold, Place, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, Nats, metadata
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.scaled"]


@pytest.mark.parametrize(
    ("subscriber", "alone", "opened"),
    [
        pytest.param({}, True, 1, id="receive is this channel's alone"),
        pytest.param({}, False, 0, id="the event may be another channel's"),
        pytest.param({"wake": "early"}, False, 1, id="which the author does not mind"),
        pytest.param({"wake": "stored"}, True, 0, id="the author wants to be sure"),
    ],
)
async def test_who_is_woken_when_receive_is(
    own_nats: Nats, stand_in: Place, scale: Scale, subscriber: dict[str, Any], alone: bool, opened: int
) -> None:
    channel, _ = await subscribed(own_nats, **subscriber)

    async with scale(channel) as running:
        running.scaler.arrived(channel.stream, alone=alone)
        await none_within(stand_in, 0.5, after=opened)


async def test_each_subscriber_of_the_channel_is_woken_and_no_other(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, first = await subscribed(own_nats)
    second = await own_nats.make_consumer(channel, {METADATA_KEY: json.dumps(metadata(channel))})
    other, _ = await subscribed(own_nats)

    async with scale(channel, other) as running:
        running.scaler.arrived(channel.stream, alone=True)
        await none_within(stand_in, 0.5, after=2)

    assert {lease["consumer"] for lease in leases(stand_in)} == {first, second}


async def test_who_is_up_is_not_woken(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    stand_in.says(Hold(ended()))
    channel, _ = await subscribed(own_nats)

    async with scale(channel) as running:
        for _ in range(3):
            running.scaler.arrived(channel.stream, alone=True)
        await none_within(stand_in, 0.5, after=1)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"pause_until": "2100-01-01T00:00:00Z"}, id="that is paused"),
        pytest.param({"metadata": {}}, id="that is not ours"),
    ],
)
async def test_no_consumer_is_woken(own_nats: Nats, stand_in: Place, scale: Scale, config: dict[str, Any]) -> None:
    channel = await own_nats.make_channel()
    marks = config.pop("metadata", {METADATA_KEY: json.dumps(metadata(channel))})
    await own_nats.make_consumer(channel, marks, **config)

    async with scale(channel) as running:
        running.scaler.arrived(channel.stream, alone=True)
        running.scaler.arrived("KN_SHOP__STRANGE", alone=True)
        await none_within(stand_in, 0.5)


async def test_a_lease_that_was_opened_early_delivers_what_is_stored_a_second_later_and_ends_by_itself(
    own_nats: Nats, nats_server: NatsServer, server: Subscriber, scale: Scale, tmp_path: Any
) -> None:
    place = server.place()
    with Function("forward", nats_server.url, tmp_path) as forward:
        lane = await own_nats.serve(forward, subscriber=place.uri)
        async with scale(lane.channel, uri=forward.url) as running:

            async def pulls() -> bool:
                return bool((await lane.info())["num_waiting"])

            running.scaler.arrived(lane.channel.stream, alone=True)
            await until("it pulls", pulls)
            # Nobody says so: no hint, and no sweep.
            await store(own_nats, lane.channel, 1)
            await place.wait(1)
            await until("the lease has ended", lambda: running.scaler.stats()["open"] == 0)
            stats = running.scaler.stats()
    assert (stats["opened"], stats["failures"]) == (1, 0)


async def test_that_a_subscriber_is_to_be_woken_early_is_no_reason_to_give_up_its_lease(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(Hold(ended()))
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)

    async with scale(channel) as running:
        [lease] = await stand_in.wait(1)
        marks = {METADATA_KEY: json.dumps(metadata(channel, wake="early"))}
        await own_nats.edit_consumer(channel, durable, marks)
        await running.scaler.refresh(channel.stream)
        await none_within(stand_in, 0.3, after=1)
        assert lease.gone_at is None
