"""How the scaler comes back: when events are due again, and when leases fail."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.support.functions.scaling import Scale, ended, gaps, hint, leases, none_within, pull, store, subscribed
from tests.support.http.subscriber import Answer, Hold, Place, Say
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import METADATA_KEY, NANOSECONDS, Channel, Nats, metadata

pytest_plugins = ["tests.support.functions.scaled"]


async def test_a_delayed_retry_gets_its_lease_when_it_is_due(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    stand_in.says(ended(retried=1, ack_pending=1, next_due_seconds=1.0), ended(delivered=1))
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        await hint(own_nats, channel)
        first, second = await stand_in.wait(2)
        await none_within(stand_in, 0.5, after=2)

    assert 0.95 <= second.at - first.at < 6


async def test_after_a_start_due_times_come_from_the_stage_records(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, durable = await subscribed(own_nats)
    other = await own_nats.make_consumer(
        channel, {METADATA_KEY: json.dumps(metadata(channel))}, ack_wait=60 * NANOSECONDS
    )
    await store(own_nats, channel, 3)
    await pull(own_nats, channel, other, 3)
    for event in await pull(own_nats, channel, durable, 3):
        await event.nak(delay=60)
    due = time.time() + 1.5
    for sequence, moment in ((1, due + 60), (2, due), (3, due + 30)):
        await _record(own_nats, channel, durable, sequence, moment)

    async with scale(channel, sweeping=0.3):
        [request] = await stand_in.wait(1)
        late = time.time() - (time.monotonic() - request.at) - due

    assert leases(stand_in)[0]["consumer"] == durable
    assert -0.05 <= late < 20


async def test_a_due_time_of_a_clock_that_is_ahead_is_believed_within_the_back_off_alone(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)
    [event] = await pull(own_nats, channel, durable, 1)
    await event.nak(delay=60)
    record = {"due": time.time() + 600, "wait": 1.0}
    await own_nats.store(
        f"{channel.namespace}.{channel.name}._knative_aside.stage.{durable}.1", json.dumps(record).encode()
    )

    async with scale(channel, sweeping=0.3):
        await stand_in.wait(1, timeout=20.0)


async def test_a_record_that_is_due_already_gets_its_lease_at_the_start(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)
    await pull(own_nats, channel, durable, 1)
    await _record(own_nats, channel, durable, 1, time.time() - 100)

    async with scale(channel):
        await stand_in.wait(1, timeout=6.0)
        await none_within(stand_in, 0.5, after=1)


async def test_un_acked_events_that_nobody_knows_of_are_probed_for_after_the_ack_wait(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)
    await pull(own_nats, channel, durable, 1)

    async with scale(channel, sweeping=1.0):
        started = time.monotonic()
        [request] = await stand_in.wait(1)

    assert 7.5 <= request.at - started < 20


async def _record(own_nats: Nats, channel: Channel, durable: str, sequence: int, due: float) -> None:
    subject = f"{channel.namespace}.{channel.name}._knative_aside.stage.{durable}.{sequence}"
    await own_nats.store(subject, json.dumps({"stage": "subscriber", "due": due}).encode())


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(Say(503, {"Retry-After": "1"}, b'{"title": "Unavailable", "detail": "NATS"}'), id="no NATS"),
        pytest.param(Say(500), id="a crash"),
        pytest.param(Say(200, {}, b"<html>"), id="an answer that is no lease's"),
    ],
)
async def test_a_failed_lease_is_tried_again_until_it_works(
    own_nats: Nats, stand_in: Place, scale: Scale, failure: Answer
) -> None:
    stand_in.says(failure, failure, failure, ended(delivered=1))
    channel, _ = await subscribed(own_nats)

    async with scale(channel) as running:
        await hint(own_nats, channel)
        requests = await stand_in.wait(4)
        await none_within(stand_in, 0.5, after=4)
        stats = running.scaler.stats()

    assert [gap >= least for gap, least in zip(gaps(requests), (0.2, 0.3, 0.6), strict=True)] == [True] * 3
    assert (stats["opened"], stats["open"], stats["failures"]) == (4, 0, 3)


async def test_a_forward_that_is_not_there_is_called_again_and_not_in_a_storm(own_nats: Nats, scale: Scale) -> None:
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)

    async with scale(channel, uri=f"http://127.0.0.1:{free_port()}/") as running:
        await asyncio.sleep(1.5)
        stats = running.scaler.stats()["consumers"][f"{channel.stream}/{durable}"]

    assert 2 <= stats["failures"] <= 5


async def test_when_nats_is_there_again_no_pause_of_before_is_kept(
    own_nats: Nats, nats_server: NatsServer, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(Say(503))
    channel, _ = await subscribed(own_nats)
    await store(own_nats, channel, 1)

    async with scale(channel):
        await stand_in.wait(6)
        # The next pause would be of 5.1 s or more.
        nats_server.restart()
        requests = await stand_in.wait(8)

    assert gaps(requests)[5] < 5.0
    # As after a first failure, and not in a row with those of before.
    assert gaps(requests)[6] < 2.5


async def test_a_lease_that_delivers_nothing_of_what_is_pending_is_followed_by_pauses(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(ended(pending=5))
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        await hint(own_nats, channel)
        requests = await stand_in.wait(4)

    assert [gap >= least for gap, least in zip(gaps(requests), (0.5, 1.0, 2.0), strict=True)] == [True] * 3


async def test_so_is_a_trial_and_the_leases_after_it_are_usual_ones(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(Say(503), ended(pending=5))
    channel, _ = await subscribed(own_nats)

    async with scale(channel):
        await hint(own_nats, channel)
        requests = await stand_in.wait(4)

    assert [lease["seconds"] for lease in leases(stand_in)[:4]] == [20.0, 1.0, 20.0, 20.0]
    assert [lease["progress_seconds"] for lease in leases(stand_in)[:4]] == [2.0, 0.1, 2.0, 2.0]
    assert [gap >= least for gap, least in zip(gaps(requests), (0.2, 0.5, 1.0), strict=True)] == [True] * 3


@pytest.mark.parametrize("status", [404, 409])
async def test_a_consumer_that_is_gone_is_looked_up_and_left_alone(
    own_nats: Nats, stand_in: Place, scale: Scale, status: int
) -> None:
    stand_in.says(Say(status))
    channel, durable = await subscribed(own_nats)

    async with scale(channel) as running:
        await own_nats.call(f"CONSUMER.DELETE.{channel.stream}.{durable}")
        await hint(own_nats, channel)
        await stand_in.wait(1)
        await none_within(stand_in, 1.0, after=1)

    assert running.missing == [channel.stream]


async def test_a_stream_that_is_lost_is_told_of(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    channel, _ = await subscribed(own_nats)

    async with scale(channel, sweeping=0.1) as running:
        assert running.missing == []
        await own_nats.call(f"STREAM.DELETE.{channel.stream}")
        await asyncio.sleep(0.5)

    assert channel.stream in running.missing


async def test_a_scaler_that_ends_hangs_up_its_leases(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    stand_in.says(Hold(ended()))
    channel, _ = await subscribed(own_nats)

    async with scale(channel) as running:
        await hint(own_nats, channel)
        [request] = await stand_in.wait(1)
        await running.stop()
        await asyncio.sleep(0.2)

    assert request.gone_at is not None
    assert running.scaler.stats()["open"] == 0


async def test_a_server_that_is_away_ends_nothing(
    own_nats: Nats, nats_server: NatsServer, stand_in: Place, scale: Scale
) -> None:
    channel, _ = await subscribed(own_nats)
    await store(own_nats, channel, 1)
    stand_in.says(ended(delivered=1))

    async with scale(channel, sweeping=0.2) as running:
        await stand_in.wait(1)
        nats_server.stop()
        await asyncio.sleep(1.0)
        assert not running.task.done()
        nats_server.start()
        await stand_in.wait(2)


@pytest.mark.parametrize("order", ["ordered", "by-key"])
async def test_where_there_is_an_order_one_lease_is_open_at_a_time(
    own_nats: Nats, stand_in: Place, scale: Scale, order: str
) -> None:
    channel, _ = await subscribed(own_nats, lagThreshold=1, maxScale=4, deliveryOrder=order)
    await store(own_nats, channel, 10)
    stand_in.says(ended(0.2, pending=9, delivered=1))
    async with scale(channel):
        await stand_in.wait(3)
    assert stand_in.most_at_once == 1
