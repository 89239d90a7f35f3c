"""The scaler tells the keeper of the conditions that one of them may have changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from headrace.core.delivery.lease import Lease, LeaseAnswer, Outcome
from headrace.core.delivery.subscriber import Subscriber
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace_operator.scaling.scaler import Scaler
from tests.support.functions.scaling import NEVER, Running, Scale, ended, hint, pull, settled, store, subscribed
from tests.support.http.subscriber import Place
from tests.support.nats.streams import METADATA_KEY, NANOSECONDS, Nats, metadata
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.scaled"]


async def test_whoever_keeps_the_conditions_is_told_when_a_window_turns_full_and_when_it_has_room_again(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel = await own_nats.make_channel()
    marks = {METADATA_KEY: json.dumps(metadata(channel))}
    durable = await own_nats.make_consumer(channel, marks, max_ack_pending=2, ack_wait=60 * NANOSECONDS)
    await store(own_nats, channel, 5)
    await pull(own_nats, channel, durable, 2)
    stand_in.says(ended(pending=3, ack_pending=2))

    async with scale(channel, sweeping=0.1) as running:
        await running.told_of_trouble(channel.stream, 1)
        # An ack would look like a loss, too: no lease of this scaler's is open.
        await own_nats.edit_consumer(channel, durable, max_ack_pending=3)
        await running.told_of_trouble(channel.stream, 2)


@pytest.mark.parametrize("loss", ["stuck", "discarded"])
async def test_whoever_keeps_the_conditions_is_told_of_events_that_are_stuck_or_lost(
    own_nats: Nats, stand_in: Place, scale: Scale, loss: str
) -> None:
    stand_in.says(ended(**{loss: 3}))
    channel, durable = await subscribed(own_nats)

    async with scale(channel) as running:
        await hint(own_nats, channel)
        await running.told_of_trouble(channel.stream, 1)
        assert running.scaler.stats()["consumers"][f"{channel.stream}/{durable}"]["events"][loss] == 3


async def test_whoever_keeps_the_conditions_is_told_when_events_vanish_that_waited_for_their_retry(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, durable = await subscribed(own_nats)
    await store(own_nats, channel, 1)
    [pulled] = await pull(own_nats, channel, durable, 1)
    record = f"{channel.namespace}.{channel.name}._knative_aside.stage.{durable}.1"
    await own_nats.store(record, json.dumps({"due": time.time() + 3600}).encode())
    await pulled.nak(delay=3600)

    async with scale(channel, sweeping=0.1) as running:
        assert running.troubled == []
        await own_nats.call(f"STREAM.PURGE.{channel.stream}")
        await running.told_of_trouble(channel.stream, 1)


async def test_a_lease_that_fails_in_a_way_that_nobody_has_foreseen_ends_no_other(
    own_nats: Nats, connection: Client
) -> None:
    channel, _ = await subscribed(own_nats)
    asked = 0

    async def open_lease(_: Subscriber, _lease: Lease, _on_ending: Callable[[], None]) -> LeaseAnswer:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise RuntimeError("the handler is closed")
        return LeaseAnswer(dict.fromkeys(Outcome, 0), pending=0, ack_pending=0, next_due_seconds=None)

    scaler = Scaler(connection, JetStreamApi(connection), open_lease, sweep_seconds=NEVER)
    scaler.serve([channel.stream])
    running = Running(scaler, asyncio.create_task(scaler.run()))
    try:
        await settled(running, (channel,))
        await store(own_nats, channel, 1)
        await hint(own_nats, channel)
        await until("the lease is tried again", lambda: asked >= 2)
        assert scaler.stats()["failures"] == 1
    finally:
        await running.stop()


async def test_a_lease_that_answers_with_more_than_can_be_counted_has_failed_and_ends_no_other(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    stand_in.says(ended(pending=10**400), ended(delivered=1))
    channel, durable = await subscribed(own_nats)

    async with scale(channel) as running:
        await store(own_nats, channel, 1)
        await hint(own_nats, channel)

        def row() -> tuple[int, int]:
            found = running.scaler.stats()["consumers"][f"{channel.stream}/{durable}"]
            return found["failures"], found["events"]["delivered"]

        await until("the lease is tried again", lambda: row() == (1, 1))


async def test_whoever_keeps_the_conditions_is_told_of_a_stream_without_room_and_no_lease_is_opened_for_it(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channel, _ = await subscribed(own_nats)

    async with scale(channel) as running:
        leases = len(stand_in.received)
        await own_nats.client.publish(f"headrace.wake.{channel.stream}", b"full")
        await running.told_of_trouble(channel.stream, 1)
        assert len(stand_in.received) == leases
